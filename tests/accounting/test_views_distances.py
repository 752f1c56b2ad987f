"""Stack distances: equal to an LRU list of every capacity while they are exact, and close to it when they are sampled."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.block_lru import BlockLru
from kvtool.accounting.views.distance_counts import DistanceCounts
from kvtool.accounting.views.fenwick import Fenwick
from kvtool.accounting.views.stack_distances import StackDistances
from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import hash_ids

chains = st.lists(st.integers(0, 2), max_size=7)
asked = st.integers(0, 7)
requests = st.lists(st.tuples(chains, asked), max_size=25)


@given(st.lists(st.integers(-5, 5), max_size=20), st.lists(st.tuples(st.integers(0, 19), st.integers(-5, 5))))
def test_sums_of_the_first(values: list[int], changes: list[tuple[int, int]]) -> None:
    sums = Fenwick(values)
    for place, value in changes:
        if place < len(values):
            values[place] += value
            sums.add(place, value)
    assert [sums.first(count) for count in range(len(values) + 1)] == [
        sum(values[:count]) for count in range(len(values) + 1)
    ]


ranges = st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(1, 5), st.integers(1, 3))


@given(st.lists(ranges, max_size=12), st.integers(0, 200))
def test_counts_of_levels_stand_for_more_at_larger_distances(added: list[tuple[int, int, int, int]], at: int) -> None:
    counts = DistanceCounts()
    plain: list[tuple[int, int]] = []
    for level, distance, count, weight in added:
        counts.add(level, distance, count, weight)
        plain += [((distance + each) << level, weight << level) for each in range(count)]
    assert counts.below(at) == sum(weight for distance, weight in plain if distance < at)
    assert counts.end == max((distance + 1 for distance, _ in plain), default=0)


def lru_hits(requests: Sequence[tuple[Sequence[BlockHash], int]], capacity: int) -> int:
    lru = BlockLru(capacity)
    hits = 0
    for blocks, asked in requests:
        hits += lru.find(blocks[:asked])
        lru.store(blocks)
    return hits


@given(requests)
def test_it_hits_what_a_list_of_any_capacity_hits(some: list[tuple[list[int], int]]) -> None:
    distances = StackDistances(1_000)
    chained = [(hash_ids(ids), min(asked, len(ids))) for ids, asked in some]
    for blocks, asked in chained:
        distances.request(blocks, asked)
        distances.check()
    assert distances.level == 0
    assert len(distances) == len({block for blocks, _ in chained for block in blocks})
    for capacity in range(1, len(distances) + 2):
        assert distances.counts.below(capacity) == lru_hits(chained, capacity)
    assert distances.counts.end <= len(distances)


@given(requests)
def test_the_distance_of_the_last_block_that_was_asked_for(some: list[tuple[list[int], int]]) -> None:
    distances = StackDistances(1_000)
    stack: list[BlockHash] = []  # the most recently used first
    for ids, asked in some:
        blocks = hash_ids(ids)
        asked = min(asked, len(blocks))
        last = blocks[asked - 1] if asked else None
        want = stack.index(last) if last in stack else None
        assert distances.request(blocks, asked) == want
        stack = [*blocks, *(block for block in stack if block not in blocks)]


def test_a_hand_counted_case() -> None:
    """a b c, then x y: four blocks stand before c, so it takes a list of five to hit the second a b c whole."""
    distances = StackDistances(100)
    for ids in ([1, 2, 3], [8, 9], [1, 2, 3]):
        distances.request(hash_ids(ids), len(ids))
    assert [distances.counts.below(capacity) for capacity in range(7)] == [0, 0, 0, 1, 2, 3, 3]
    distances.request(hash_ids([1, 2, 3, 4]), 4)  # at once again: 0, 1 and 2; the fourth is new
    assert [distances.counts.below(capacity) for capacity in range(7)] == [0, 1, 2, 4, 5, 6, 6]


def test_places_are_numbered_anew_when_they_run_out() -> None:
    """There is room for some dozens of requests: of a thousand, seven at a time have any blocks left."""
    distances = StackDistances(8)
    chained = [(hash_ids([number % 7]), 1) for number in range(1_000)]
    for blocks, asked in chained:
        distances.request(blocks, asked)
        distances.check()
    assert [distances.counts.below(capacity) for capacity in (6, 7)] == [0, 993]
    assert distances.counts.below(7) == lru_hits(chained, 7)


def _sessions(seed: int, count: int) -> list[tuple[list[BlockHash], int]]:
    """Sessions that grow, a few of them hot, behind one of three system prompts."""
    rng = random.Random(seed)
    histories = [[100 * (number % 3) + at for at in range(4)] for number in range(400)]
    found = []
    for number in range(count):
        history = histories[min(int(rng.expovariate(1 / 90)), 399)]
        blocks = hash_ids(history)
        found.append((blocks, len(blocks)))
        history += [1_000 * number + at for at in range(rng.randrange(1, 4))]
        if len(history) > 40:
            del history[4:]
    return found


def test_a_sample_follows_few_blocks_and_tells_the_same() -> None:
    chained = _sessions(1, 3_000)
    exact, sample = StackDistances(100_000), StackDistances(1_024)
    for blocks, asked in chained:
        exact.request(blocks, asked)
        sample.request(blocks, asked)
        assert len(sample) <= 1_024
    sample.check()
    assert (exact.level, sample.level) == (0, 3)
    total = sum(asked for _, asked in chained)

    def farther(of: StackDistances, distance: int) -> float:
        """What blocks at the front of all prompts decide by chance, as they are in the sample or not, is left out."""
        return (of.counts.below(of.counts.end) - of.counts.below(distance)) / total

    for capacity in (50, 200, 500, 1_000, 2_000, 4_000):
        assert exact.counts.below(capacity) == lru_hits(chained, capacity)
        assert farther(sample, capacity) == pytest.approx(farther(exact, capacity), abs=0.04)


def test_a_request_that_is_larger_than_the_bound() -> None:
    distances = StackDistances(16)
    blocks = hash_ids(list(range(500)))
    assert distances.request(blocks, 500) is None
    distances.check()
    assert distances.level >= 5
    distances.request(blocks, 500)
    assert distances.counts.below(1_000) == len(distances) << distances.level
