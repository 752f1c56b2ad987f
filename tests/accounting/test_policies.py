"""Eviction policies: equal to counts that an independent simulator made, none above the optimum, each as its rule says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.block_lru import BlockLru
from kvtool.accounting.policies.eviction_policy import EvictionPolicy, prefix_hits
from kvtool.accounting.policies.lfu import Lfu
from kvtool.accounting.policies.optimum import optimal_hits
from kvtool.accounting.policies.recency import Fifo, Lru

SHARED = Path(__file__).resolve().parents[3] / "shared"
EXPECTED = SHARED / "oracle" / "policies-expected.json"
CONVERSATION = SHARED / "data" / "mooncake" / "conversation_trace.jsonl"
POLICIES: dict[str, Callable[[int], EvictionPolicy]] = {
    "LRU": Lru,
    "FIFO": Fifo,
    "LFU": Lfu,
}
Requests = list[list[int]]


@cache
def expected(trace: str) -> dict[str, Any]:
    if not EXPECTED.exists():
        pytest.skip(f"{EXPECTED.name} is not there")
    found: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))["traces"][trace]
    return found


@cache
def conversation() -> Requests:
    if not CONVERSATION.exists():
        pytest.skip(f"{CONVERSATION.name} is not there")
    return [json.loads(line)["hash_ids"] for line in CONVERSATION.read_text(encoding="utf-8").splitlines()]


@cache
def drifting(seed: int, requests: int = 4000, documents: int = 300, depth: int = 12) -> Requests:
    """Documents by a Zipf law, of which all but the ten most popular drift: what the recorded counts call `zipf_1`."""
    rng = random.Random(seed)
    weights = list(accumulate(1 / (rank + 1) for rank in range(documents)))
    found = []
    for number in range(requests):
        at = rng.random() * weights[-1]
        rank = next(rank for rank, sum_ in enumerate(weights) if at < sum_)
        document = (rank + number // 20) % documents if rank >= 10 else rank
        found.append([document * 64 + block + 1 for block in range(1 + int(rng.random() * depth))])
    return found


@pytest.mark.parametrize("name", [*POLICIES, "OPT"])
@pytest.mark.parametrize("trace", ["conversation", "zipf_1"])
def test_the_recorded_counts(trace: str, name: str) -> None:
    requests = conversation() if trace == "conversation" else drifting(1)
    for capacity, hits in expected(trace)["prefix"][name].items():
        mine = optimal_hits(requests, int(capacity)) if name == "OPT" else hits_of(name, int(capacity), requests)
        assert (capacity, mine) == (capacity, hits)


def hits_of(name: str, capacity: int, requests: Requests) -> int:
    return prefix_hits(POLICIES[name](capacity), requests)


CHAINS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 6)).map(lambda of: [of[0] * 10 + depth for depth in range(of[1])]),
    max_size=40,
)


@given(requests=CHAINS, capacity=st.integers(0, 24))
def test_none_is_above_the_optimum_nor_above_an_unlimited_cache(requests: Requests, capacity: int) -> None:
    most = optimal_hits(requests, capacity)
    unlimited = optimal_hits(requests, 1000)
    assert unlimited == hits_of("LRU", 1000, requests)
    assert most <= unlimited
    for name in POLICIES:
        assert hits_of(name, capacity, requests) <= most, name


@given(requests=CHAINS, capacity=st.integers(1, 24))
def test_lru_is_the_list_of_trace_studies(requests: Requests, capacity: int) -> None:
    """That one evicts once, at the end of a request."""
    studies = BlockLru(capacity)
    assert hits_of("LRU", capacity, requests) == sum(map(studies.request, requests))


@given(sequence=st.lists(st.integers(0, 9), max_size=60), capacity=st.integers(0, 7), name=st.sampled_from([*POLICIES]))
def test_a_cache_holds_what_it_was_given_and_no_more(sequence: list[int], capacity: int, name: str) -> None:
    policy = POLICIES[name](capacity)
    seen: set[int] = set()
    for block in sequence:
        policy.access(block)
        seen.add(block)
        resident = {each for each in range(10) if each in policy}
        assert resident <= seen
        assert len(resident) <= capacity
        assert block in resident or not capacity
        if len(seen) <= capacity:
            assert resident == seen  # nothing goes while there is room


def test_the_optimum_is_the_best_of_all_choices() -> None:
    """Against every way to keep blocks between requests, of traces that are small enough."""
    rng = random.Random(3)
    for _ in range(60):
        chains = [[family * 4 + depth for depth in range(rng.randint(1, 3))] for family in (0, 1, 2)]
        requests = [rng.choice(chains)[: rng.randint(1, 3)] for _ in range(6)]
        for capacity in (1, 2, 3):
            assert optimal_hits(requests, capacity) == best_of_all(requests, capacity)


def best_of_all(requests: Requests, capacity: int) -> int:
    states = {frozenset[int](): 0}
    for blocks in requests:
        after: dict[frozenset[int], int] = {}
        for resident, hits in states.items():
            found = 0
            while found < len(blocks) and blocks[found] in resident:
                found += 1
            known = sorted(resident | set(blocks))
            for kept in product((False, True), repeat=len(known)):
                stays = frozenset(block for block, keep in zip(known, kept, strict=True) if keep)
                if len(stays) <= capacity:
                    after[stays] = max(after.get(stays, 0), hits + found)
        states = after
    return max(states.values())


def run_of(policy: EvictionPolicy, sequence: list[int]) -> list[int]:
    for block in sequence:
        policy.access(block)
    return [block for block in sorted(set(sequence)) if block in policy]


def test_what_each_lets_go() -> None:
    assert run_of(Lru(2), [1, 2, 1, 3]) == [1, 3]
    assert run_of(Fifo(2), [1, 2, 1, 3]) == [2, 3]
    assert run_of(Lfu(2), [1, 1, 2, 3]) == [1, 3]
    assert run_of(Lfu(2), [1, 2, 2, 1, 3]) == [1, 3]  # 2 reached two uses first


@pytest.mark.parametrize("name", [*POLICIES])
def test_a_cache_of_nothing_hits_nothing(name: str) -> None:
    assert hits_of(name, 0, [[1, 2], [1, 2]]) == 0
    assert optimal_hits([[1, 2], [1, 2]], 0) == 0
