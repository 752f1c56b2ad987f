"""Curves in one pass: equal to a cache of each size, or of each lifetime, run by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.replicas import TimedLru
from kvtool.accounting.curves.capacity_curve import capacity_curve
from kvtool.accounting.curves.engine_hits import best_hits, engine_hits
from kvtool.accounting.curves.lifetimes import lifetime_curve
from kvtool.accounting.curves.sampled_curve import sampled_curve
from kvtool.accounting.policies.eviction_policy import EvictionPolicy, hits_of_each, leading_hits, prefix_hits
from kvtool.accounting.policies.known_policies import POLICIES
from kvtool.accounting.policies.recency import Lru
from kvtool.engine.config import EngineConfig
from kvtool.workload.block_trace import BlockCollector, BlockTrace, RequestedBlocks
from kvtool.workload.turn import HashedPrompt, Turn

CONVERSATION = Path(__file__).resolve().parents[3] / "shared" / "data" / "mooncake" / "conversation_trace.jsonl"
BLOCK = 4


def trace_of(
    chains: Sequence[Sequence[int]], *, tokens: Sequence[int] | None = None, salts: Sequence[str | None] | None = None
) -> BlockTrace:
    collector = BlockCollector(BLOCK)
    for at, ids in enumerate(chains):
        count = BLOCK * len(ids) if tokens is None else tokens[at]
        salt = None if salts is None else salts[at]
        collector.add_hashed(Turn("g", hashed=HashedPrompt(list(ids), count, BLOCK), salt=salt, arrival=float(at)))
    return collector.trace()


def chain(of: tuple[int, int, int]) -> list[int]:
    """Documents that share heads: the first blocks are those of a family."""
    family, document, depth = of
    return [family * 100 + at if at < 3 else family * 100 + document * 10 + at for at in range(depth)]


CHAINS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 8)).map(chain), max_size=40)


@given(chains=CHAINS, capacity=st.integers(0, 60))
def test_a_point_of_the_curve_is_a_cache_of_that_size(chains: list[list[int]], capacity: int) -> None:
    trace = trace_of(chains)
    assert capacity_curve(trace.of_studies()).at(capacity) == prefix_hits(Lru(capacity), chains)


@given(chains=CHAINS, capacity=st.integers(0, 60), data=st.data())
def test_only_what_is_asked_counts_and_all_is_touched(
    chains: list[list[int]], capacity: int, data: st.DataObject
) -> None:
    """By vLLM's rule the block with the last token is computed, and a partial one is nobody's."""
    tokens = [
        data.draw(st.integers(max(BLOCK * (len(ids) - 1) + 1, 0), BLOCK * len(ids))) if ids else 0 for ids in chains
    ]
    lru, hits = Lru(capacity), 0
    for ids, count in zip(chains, tokens, strict=True):
        full = ids[: count // BLOCK]
        hits += leading_hits(lru, full[: max(count - 1, 0) // BLOCK])
        for block in reversed(full):
            lru.access(block)
    assert capacity_curve(trace_of(chains, tokens=tokens).of_engine()).at(capacity) == hits


def some_asked(trace: BlockTrace, last: Sequence[bool]) -> RequestedBlocks:
    """What requests touch, of which some do not look up the last."""
    blocks = trace.of_studies()
    less = np.array(last[: len(trace)], np.int64)
    return replace(blocks, asked=np.maximum(blocks.asked - less, 0))


def hits_under(policy: EvictionPolicy, blocks: RequestedBlocks) -> int:
    return sum(map(min, hits_of_each(policy, blocks.requests()), blocks.asked.tolist()))


@given(chains=CHAINS, capacity=st.integers(0, 30), last=st.lists(st.booleans(), min_size=40, max_size=40))
def test_no_policy_hits_more_of_what_is_asked_than_the_optimum(
    chains: list[list[int]], capacity: int, last: list[bool]
) -> None:
    trace = trace_of(chains)
    blocks = some_asked(trace, last)
    best = best_hits(trace, blocks, capacity).blocks
    for name, policy in POLICIES.items():
        assert hits_under(policy(capacity), blocks) <= best, name
    tokens = [BLOCK * len(ids) - 3 * off if ids else 0 for ids, off in zip(chains, last, strict=False)]
    served = trace_of(chains, tokens=tokens)
    served = served.only(served.prompt_tokens > 0)
    config = EngineConfig(block_size=BLOCK, num_blocks=capacity + 9)  # the longest prompt and its answer have 9
    assert engine_hits(served, config).blocks <= best_hits(served, served.of_engine(), capacity + 8).blocks


def test_the_optimum_keeps_no_block_for_who_does_not_look_it_up() -> None:
    """Hits that are cut to what is asked afterwards come to 8 here: one fewer than SIEVE gets, a policy of caches in general."""
    chains = [[0, 1], [0, 1, 2], [20], [10, 11, 12], [10, 11, 12], [0, 1], [0, 1], [10, 11]]
    trace = trace_of(chains)
    blocks = some_asked(trace, [False, False, False, True, True, False, False, True])
    assert best_hits(trace, blocks, 4).blocks == 9


@given(chains=CHAINS, data=st.data())
def test_salts_share_nothing(chains: list[list[int]], data: st.DataObject) -> None:
    salts = [data.draw(st.sampled_from([None, "a", "b"])) for _ in chains]
    together = capacity_curve(trace_of(chains, salts=salts).of_studies()).unlimited
    apart = sum(
        capacity_curve(
            trace_of([ids for ids, of in zip(chains, salts, strict=True) if of == salt]).of_studies()
        ).unlimited
        for salt in (None, "a", "b")
    )
    assert together == apart


@given(st.lists(st.lists(st.integers(-3, 1 << 70), max_size=5), max_size=20))
def test_ids_of_any_size_that_stand_behind_any_other(chains: list[list[int]]) -> None:
    """Where an id does not always stand behind the same other one it is a chain that has a number."""
    numbers = trace_of(chains)
    names: dict[tuple[int, ...], int] = {}
    for at, ids in enumerate(chains):
        mine = numbers.numbers[numbers.starts[at] : numbers.starts[at + 1]].tolist()
        for depth, number in enumerate(mine):
            assert names.setdefault(tuple(ids[: depth + 1]), number) == number
    assert len(set(names.values())) == len(names)


@given(chains=CHAINS, ttl=st.integers(0, 30), gaps=st.lists(st.integers(0, 9), min_size=40, max_size=40))
def test_a_point_of_the_lifetimes_is_a_cache_with_that_time_to_live(
    chains: list[list[int]], ttl: int, gaps: list[int]
) -> None:
    arrivals = np.cumsum(np.array(gaps[: len(chains)], dtype=np.float64))
    cache, hits = TimedLru(None, float(ttl)), 0
    for ids, now in zip(chains, arrivals.tolist(), strict=True):
        hits += cache.find(ids, now)
        cache.store(ids, now)
    assert lifetime_curve(trace_of(chains).of_studies(), arrivals).at(float(ttl)) == hits


def test_nothing_at_all() -> None:
    empty = RequestedBlocks(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64))
    assert capacity_curve(empty).rate(10) == capacity_curve(empty).unlimited == 0.0
    assert sampled_curve(empty, 0.5).rate(10) == 0.0
    assert lifetime_curve(empty, np.empty(0)).rate(1.0) == 0.0


def test_a_sample_is_as_near_as_it_says() -> None:
    """Of a skewed trace with eight seeds: the exact rate lies within two standard errors in nearly all places."""
    inside = told = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        documents = rng.zipf(1.3, size=3000) % 400
        trace = trace_of([[int(d) * 16 + at for at in range(1 + int(d) % 12)] for d in documents])
        blocks = trace.of_studies()
        exact, sample = capacity_curve(blocks), sampled_curve(blocks, 0.5)
        for capacity in (50, 200, 800, 10_000):
            told += 1
            inside += abs(sample.rate(capacity) - exact.rate(capacity)) <= sample.error(capacity) + 1e-9
    assert inside >= 0.85 * told
    assert sample.rate(10_000) == pytest.approx(exact.rate(10_000))


def test_the_conversation_trace() -> None:
    if not CONVERSATION.exists():
        pytest.skip(f"{CONVERSATION.name} is not there")
    rows = [json.loads(line) for line in CONVERSATION.read_text(encoding="utf-8").splitlines()]
    blocks = trace_of([row["hash_ids"] for row in rows]).of_studies()
    curve, sample = capacity_curve(blocks), sampled_curve(blocks, 0.1)
    expected = {1000: 12847, 10_000: 61046, 50_000: 102_290, 100_000: 104_924, 1 << 40: 105_710}
    assert {capacity: curve.at(capacity) for capacity in expected} == expected
    assert curve.references == 288_500
    for capacity in expected:
        assert abs(sample.rate(capacity) - curve.rate(capacity)) < 0.02
