"""A cache that goes by numbers does block for block what one that goes by hashes does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.blocks.hashing import hash_ids
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account

BLOCK = 4


@dataclass(frozen=True)
class Spec:
    """A request of a trace, or one of tokens among them."""

    ids: list[int]
    short: int
    answer: int
    salt: str | None
    tokens: bool
    steps: int

    def request(self, name: str, numbers: TraceNumbers | None) -> Request:
        count = max(len(self.ids) * BLOCK - self.short, 1)
        if self.tokens:
            prompt = np.repeat(np.array(self.ids, np.int32), BLOCK)[:count] + 100
            return Request(name, count, prompt_ids=prompt, output_ids=[1] * self.answer, cache_salt=self.salt)
        if numbers is None:
            hashes = hash_ids(self.ids, self.salt)
            return Request(name, count, prompt_hashes=hashes, max_tokens=self.answer, cache_salt=self.salt)
        chain = numbers.number(self.ids, self.salt)
        return Request(name, count, prompt_numbers=chain.numbers, max_tokens=self.answer, cache_salt=self.salt)


specs = st.builds(
    Spec,
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.integers(0, BLOCK - 1),
    st.integers(1, 12),
    st.sampled_from([None, None, "x"]),
    st.sampled_from([False, False, False, True]),
    st.integers(0, 3),
)
configs = st.builds(
    EngineConfig,
    block_size=st.just(BLOCK),
    num_blocks=st.sampled_from([None, None, 9, 12, 20, 40]),
    max_num_batched_tokens=st.sampled_from([8, 64]),
    max_num_seqs=st.sampled_from([1, 3]),
    enable_prefix_caching=st.sampled_from([True, True, True, False]),
    async_scheduling=st.booleans(),
)


class Side:
    """A scheduler, the requests that it took, and what it did."""

    def __init__(self, config: EngineConfig, numbers: TraceNumbers | None) -> None:
        self.numbers = numbers
        self.scheduler = Scheduler(config, BlockManager(config, numbers=None if numbers is None else numbers.tenants))
        self.requests: list[Request] = []

    def take(self, spec: Spec, *, at_once: bool) -> bool:
        request = spec.request(str(len(self.requests)), self.numbers)
        try:
            account(self.scheduler, request) if at_once else self.scheduler.add(request)
        except EngineError:
            return False
        self.requests.append(request)
        return True

    def step(self) -> list[tuple[str, int, int, tuple[int, ...]]]:
        step = self.scheduler.schedule()
        seen = [
            (each.request.id, each.start, each.num_tokens, tuple(each.request.block_ids)) for each in step.scheduled
        ]
        self.scheduler.update(step, DryRunner().run(step))
        return seen

    def state(self, *, ordered: bool) -> tuple[object, ...]:
        cache = self.scheduler.cache
        free = list(cache.free_queue)
        holding = [cache.contents.holds(block) for block in range(cache.num_blocks)]
        return (
            free if ordered else sorted(free),
            holding,
            cache.refs,
            cache.num_evictions,
            cache.num_stored,
            cache.num_filled,
            cache.peak_used,
            sorted(sorted(each) for each in cache.contents.copies.values()),
            [(each.num_cached_tokens, each.admissions, each.num_preemptions) for each in self.requests],
        )


@given(configs, st.lists(specs, min_size=1, max_size=12), st.booleans())
def test_numbers_and_hashes_do_the_same(config: EngineConfig, workload: list[Spec], at_once: bool) -> None:
    sides = [Side(config, None), Side(config, TraceNumbers())]
    ordered = config.num_blocks is not None
    for spec in workload:
        assert len({side.take(spec, at_once=at_once) for side in sides}) == 1
        for _ in range(0 if at_once else spec.steps):
            a, b = (side.step() for side in sides)
            assert a == b
            for side in sides:
                side.scheduler.check()
        assert sides[0].state(ordered=ordered) == sides[1].state(ordered=ordered)
    for _ in range(400):
        if not len(sides[0].scheduler):
            break
        a, b = (side.step() for side in sides)
        assert a == b
    for side in sides:
        side.scheduler.check()
    assert sides[0].state(ordered=ordered) == sides[1].state(ordered=ordered)


def test_events_tell_hashes() -> None:
    config = EngineConfig(block_size=BLOCK)
    with pytest.raises(AssertionError):
        BlockManager(config, record_events=True, numbers=TraceNumbers().tenants)
    cache = BlockManager(config, numbers=TraceNumbers().tenants)
    with pytest.raises(AssertionError, match="by number"):
        _ = cache.hashes


def test_a_reset_forgets_numbers_too() -> None:
    for blocks in (None, 20):
        side = Side(EngineConfig(block_size=BLOCK, num_blocks=blocks), TraceNumbers())
        spec = Spec([1, 2, 3], 1, 9, None, False, 0)
        for expected in (0, 8):
            side.take(spec, at_once=True)
            assert side.requests[-1].num_cached_tokens == expected
        assert side.scheduler.reset_prefix_cache()
        side.scheduler.check()
        side.take(spec, at_once=True)
        assert side.requests[-1].num_cached_tokens == 0
        side.scheduler.check()
