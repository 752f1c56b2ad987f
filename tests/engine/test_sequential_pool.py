"""A pool that knows contents alone hits, evicts and holds what one of blocks does, request by request."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.blocks.hashing import hash_ids
from kvtool.engine.blocks.sequential_pool import SequentialPool
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.engine.stats import PrefixCacheStats

BLOCK = 4


@dataclass(frozen=True)
class Spec:
    """A request of a trace, or one of tokens among them. `short` tokens are missing in its last block."""

    ids: list[int]
    short: int = 0
    answer: int = 1
    salt: str | None = None
    tokens: bool = False
    skips: bool = False

    def request(self, numbers: TraceNumbers | None) -> Request:
        """By number or, without them, by hash."""
        count = max(len(self.ids) * BLOCK - self.short, 1)
        request = Request("r", count, max_tokens=self.answer, cache_salt=self.salt, skip_reading_cache=self.skips)
        if self.tokens:
            request.prompt_ids = np.repeat(np.array(self.ids, np.int32), BLOCK)[:count] + 100
            request.output_ids = [request.prompt_ids[-1]] * self.answer
        elif numbers is None:
            request.prompt_hashes = hash_ids(self.ids, self.salt)
        else:
            request.prompt_numbers = numbers.number(self.ids, self.salt).numbers
        return request


class Both:
    """An engine with blocks and hashes, and the pool that stands for it."""

    def __init__(self, config: EngineConfig) -> None:
        self.engine = Scheduler(config, BlockManager(config))
        self.numbers = TraceNumbers()
        self.pool = SequentialPool(config, PrefixCacheStats(), self.numbers.tenants)

    def take(self, spec: Spec) -> None:
        """Run a request in both; nothing where it does not fit."""
        theirs, mine = spec.request(None), spec.request(self.numbers)
        try:
            account(self.engine, theirs)
        except EngineError:
            return
        self.pool.execute(mine)
        assert (mine.num_cached_tokens, mine.outputs) == (theirs.num_cached_tokens, theirs.outputs)
        assert (mine.num_tokens, mine.num_computed_tokens) == (theirs.num_tokens, theirs.num_computed_tokens)
        assert mine.status is theirs.status
        cache = self.engine.cache
        assert (self.pool.num_evictions, self.pool.num_filled) == (cache.num_evictions, cache.num_filled)
        assert self.pool.peak_used == cache.peak_used
        assert self.pool._stats == self.engine.stats


specs = st.builds(
    Spec,
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.sampled_from([0, 0, 1, 3]),
    st.integers(1, 12),
    st.sampled_from([None, None, "x"]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([False, False, False, True]),
)
configs = st.builds(
    EngineConfig,
    block_size=st.sampled_from([BLOCK, BLOCK, BLOCK, 1, 3]),
    num_blocks=st.sampled_from([None, 8, 9, 12, 20, 40]),
    max_model_len=st.sampled_from([24, 1 << 20]),
    enable_prefix_caching=st.sampled_from([True, True, True, False]),
)


@given(configs, st.lists(specs, max_size=24))
def test_it_does_what_the_engine_does(config: EngineConfig, workload: list[Spec]) -> None:
    both = Both(config)
    for spec in workload:
        both.take(spec)
        both.pool.check()


def conversations(rng: random.Random, count: int) -> list[Spec]:
    """Prompts that go on from one of the latest, some of them word for word: their last block appears twice then."""
    made: list[list[int]] = [[0]]
    found: list[Spec] = []
    for number in range(count):
        base = rng.choice(made[-12:])
        ids = [*base[: rng.randint(1, len(base))], *range(number * 10, number * 10 + rng.randint(0, 4))]
        made.append(ids)
        found.append(Spec(ids[:14], rng.choice([0, 0, 1]), rng.randint(1, 9), tokens=rng.random() < 0.05))
    return found


def test_many_requests_come_out_the_same() -> None:
    """So many that the line is tidied up again and again, with contents that several blocks hold in it."""
    both = Both(EngineConfig(block_size=BLOCK, num_blocks=60))
    copies = tidied = 0
    for spec in conversations(random.Random(3), 1_500):
        length = len(both.pool._line)
        both.take(spec)
        copies += bool(both.pool._copies)
        if len(both.pool._line) < length:
            tidied += bool(both.pool._copies)
            both.pool.check()
    assert copies > 100
    assert tidied > 1


def test_prompts_word_for_word_leave_their_last_block_several_times() -> None:
    """Which of the blocks that hold a content is hit, and which is left when one goes, decides what is evicted behind that."""
    most = 0
    for seed in range(40):
        rng = random.Random(seed)
        both = Both(EngineConfig(block_size=BLOCK, num_blocks=rng.randint(8, 16)))
        for _ in range(120):
            ids = [[0], [0, 1], [0, 1], [0, 1, 2], [3, 4], [5], [6, 7, 8]][rng.randrange(7)]
            both.take(Spec(ids, answer=rng.choice([1, 1, 4, 9])))
            most = max(most, *map(len, both.pool._copies.values()), 0)
    assert most > 2


def test_an_unlimited_pool_keeps_all() -> None:
    both = Both(EngineConfig(block_size=BLOCK))
    for spec in conversations(random.Random(4), 500):
        both.take(spec)
    both.pool.check()
    assert both.pool.num_evictions == 0
