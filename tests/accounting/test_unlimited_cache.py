from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.unlimited import ComputedPrefixes, UnlimitedCache
from kvtool.accounting.ledger.ledger import Ledger
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.engine.stats import PrefixCacheStats
from kvtool.workload.turn import Turn

MODEL_LEN = 24
prompts = st.tuples(
    st.lists(st.integers(0, 1), min_size=1, max_size=MODEL_LEN - 1),
    st.lists(st.integers(0, 1), min_size=1, max_size=12),
    st.sampled_from([None, "", "a", "b"]),
)


@given(st.lists(prompts, max_size=16), st.sampled_from([2, 3, 4, 16]), st.booleans())
def test_it_does_what_the_engine_does(
    workload: list[tuple[list[int], list[int], str | None]], block_size: int, caching: bool
) -> None:
    config = EngineConfig(block_size=block_size, max_model_len=MODEL_LEN, enable_prefix_caching=caching)
    engine = Scheduler(config, BlockManager(config))
    ledger = Ledger(block_size, caching=caching)
    cache = UnlimitedCache(config, PrefixCacheStats())
    seen = ComputedPrefixes(block_size)
    assert UnlimitedCache.can_replace(config)
    for number, (prompt, output, salt) in enumerate(workload):
        ids = np.array(prompt, np.int32)

        def request(number: int = number, output: list[int] = output, salt: str | None = salt) -> Request:
            return Request(
                id=str(number),
                num_prompt_tokens=len(ids),  # noqa: B023 - called before the next turn of the loop
                prompt_ids=ids,  # noqa: B023 - called before the next turn of the loop
                output_ids=output,
                cache_salt=salt,
            )

        mine, theirs = request(), request()
        entry = ledger.submit(Turn("g", token_ids=ids, salt=salt), ids, np.array(output[:-1], np.int32))
        assert seen.reachable(ids, np.array(output[:-1], np.int32), salt) == entry.reachable
        account(engine, theirs)
        cache.execute(mine, entry.reachable)
        assert (mine.num_cached_tokens, mine.outputs) == (theirs.num_cached_tokens, theirs.outputs)
        assert cache.num_filled == engine.cache.num_filled
        assert cache.peak_used == engine.cache.peak_used
    assert cache._stats == engine.stats


def test_it_does_not_stand_for_a_pool_with_a_bound() -> None:
    assert not UnlimitedCache.can_replace(EngineConfig(num_blocks=100))
    assert not UnlimitedCache.can_replace(EngineConfig(block_size=1))
