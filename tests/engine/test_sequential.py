"""Accounting at once against stepping: the cache must come out the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.hashing import hash_ids
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.request import Request, Status
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account


@dataclass(frozen=True)
class Spec:
    ids: tuple[int, ...]
    outputs: tuple[int, ...] | int
    salt: str | None
    skip: bool

    def request(self, name: str) -> Request:
        ids = np.array(self.ids, np.int32)
        forced = None if isinstance(self.outputs, int) else list(self.outputs)
        count = self.outputs if isinstance(self.outputs, int) else 1
        return Request(
            name,
            len(ids),
            prompt_ids=ids,
            output_ids=forced,
            max_tokens=count,
            cache_salt=self.salt,
            skip_reading_cache=self.skip,
        )


tokens = st.integers(0, 1)
specs = st.builds(
    Spec,
    ids=st.tuples(
        st.sampled_from([(), (0,) * 4, (0,) * 8, (0, 0, 1, 1, 0)]), st.lists(tokens, min_size=1, max_size=7)
    ).map(lambda both: (*both[0], *both[1])),
    outputs=st.lists(tokens, min_size=1, max_size=9).map(tuple) | st.integers(1, 5),
    salt=st.sampled_from([None, None, "s"]),
    skip=st.sampled_from([False, False, False, True]),
)
configs = st.builds(
    EngineConfig,
    block_size=st.sampled_from([1, 2, 4, 5]),
    num_blocks=st.none() | st.integers(4, 20),
    max_num_batched_tokens=st.sampled_from([2, 3, 7, 100]),
    max_model_len=st.sampled_from([12, 1 << 31]),
    enable_prefix_caching=st.sampled_from([True, True, True, False]),
    long_prefill_token_threshold=st.sampled_from([0, 3]),
    watermark=st.sampled_from([0.0, 0.5]),
)


def add(scheduler: Scheduler, spec: Spec, name: str, *, at_once: bool) -> Request | None:
    """The finished request; None where it is refused."""
    request = spec.request(name)
    try:
        if at_once:
            account(scheduler, request)
        else:
            scheduler.add(request)
    except EngineError:
        return None
    while len(scheduler):
        step = scheduler.schedule()
        scheduler.update(step, DryRunner().run(step))
    scheduler.check()
    return request


@given(configs, st.lists(specs, min_size=1, max_size=8), st.booleans())
def test_accounting_at_once_leaves_what_stepping_leaves(
    config: EngineConfig, workload: list[Spec], events: bool
) -> None:
    """Prompt and answer get their blocks at once where nobody records events, and step by step where somebody does."""
    at_once = Scheduler(config, BlockManager(config, record_events=events))
    stepped = Scheduler(config, BlockManager(config, record_events=True))
    for number, spec in enumerate(workload):
        mine = add(at_once, spec, str(number), at_once=True)
        theirs = add(stepped, spec, str(number), at_once=False)
        assert (mine is None) == (theirs is None)
        if mine is None or theirs is None:
            continue
        assert mine.status is theirs.status is Status.FINISHED
        assert mine.num_cached_tokens == theirs.num_cached_tokens
        assert mine.outputs == theirs.outputs
        a, b = at_once.cache, stepped.cache
        assert list(a.free_queue) == list(b.free_queue)
        assert a.hashes == b.hashes
        assert a.cached == b.cached
        assert {content: list(held) for content, held in a.copies.items()} == {
            content: list(held) for content, held in b.copies.items()
        }
        assert (a.num_evictions, a.num_stored, a.peak_used) == (b.num_evictions, b.num_stored, b.peak_used)
        if events:
            assert a.take_events() == b.take_events()  # what each step stored, in one event


def test_a_trace_of_hashes_is_accounted_alike() -> None:
    """The hashes of generated blocks are made up, but their number and places are not."""
    queues = []
    for at_once in (True, False):
        config = EngineConfig(block_size=4, num_blocks=12, max_num_batched_tokens=5)
        scheduler = Scheduler(config, BlockManager(config))
        hits = []
        for number, blocks in enumerate([[1, 2, 3], [1, 2, 4], [5, 6], [1, 2, 3]]):
            request = Request(str(number), len(blocks) * 4 - 1, prompt_hashes=hash_ids(blocks), max_tokens=9)
            if at_once:
                account(scheduler, request)
            else:
                scheduler.add(request)
                while len(scheduler):
                    step = scheduler.schedule()
                    scheduler.update(step, DryRunner().run(step))
            scheduler.check()
            hits.append(request.num_cached_tokens)
        assert hits == [0, 8, 0, 8]
        queues.append(list(scheduler.cache.free_queue))
    assert queues[0] == queues[1]


def test_what_could_never_run_is_refused_and_leaves_no_trace() -> None:
    config = EngineConfig(block_size=4, num_blocks=3)
    scheduler = Scheduler(config, BlockManager(config))
    with pytest.raises(EngineError, match="the whole cache has 2"):
        account(scheduler, Spec(tuple(range(9)), 1, None, False).request("r"))
    assert scheduler.num_submitted == 0
    assert list(scheduler.cache.free_queue) == [1, 2]


def test_free_outputs_are_zeros() -> None:
    config = EngineConfig(block_size=2)
    scheduler = Scheduler(config, BlockManager(config))
    account(scheduler, Spec((1,), 4, None, False).request("a"))
    after = Spec((1, 0, 0, 0, 9), 1, None, False).request("b")
    account(scheduler, after)
    assert after.num_cached_tokens == 4
