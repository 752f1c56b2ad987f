"""The order of segments: against every other order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.fixes.orders.block_order import best_order


def misses(values: Sequence[Sequence[int]], lengths: Sequence[Sequence[int]], order: Sequence[int]) -> int:
    """What an unlimited cache misses of the requests, segment by segment."""
    seen: set[tuple[int, ...]] = set()
    total = 0
    for request in range(len(values[0])):
        prefix: tuple[int, ...] = ()
        for segment in order:
            prefix = (*prefix, values[segment][request])
            if prefix not in seen:
                seen.add(prefix)
                total += lengths[segment][request]
    return total


def test_steady_segments_come_first() -> None:
    clock = [1, 2, 3, 4]
    rules = [0, 0, 0, 0]
    order, total = best_order([clock, rules], [[5] * 4, [100] * 4])
    assert (order, total) == ([1, 0], 120)  # 100 once, 5 for each request; the other way round: 420


def test_a_long_text_of_few_values_goes_before_a_short_one_of_fewer() -> None:
    """Fewest values first would cost 2 * 10 + 2 * 3 * 1000; L·d/(d - 1) says 1500 against 20."""
    flag, document = [0, 1] * 3, [0, 0, 1, 1, 2, 2]
    order, total = best_order([flag, document], [[10] * 6, [1000] * 6])
    assert (order, total) == ([1, 0], 3000 + 60)


def test_precedence_is_kept() -> None:
    values = [[1, 2, 3], [0, 0, 0], [0, 0, 0]]
    lengths = [[1] * 3, [10] * 3, [20] * 3]
    assert best_order(values, lengths, [(0, 1)]) == ([2, 0, 1], 20 + 3 + 30)
    with pytest.raises(ValueError, match="circle"):
        best_order(values, lengths, [(0, 1), (1, 0)])


def test_nothing_to_order() -> None:
    assert best_order([], []) == ([], 0)
    assert best_order([[7]], [[3]]) == ([0], 3)
    assert best_order([[], []], [[], []]) == ([0, 1], 0)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], set[tuple[int, int]]]:
    count = draw(st.integers(1, 5))
    requests = draw(st.integers(1, 8))
    values, lengths = [], []
    for _ in range(count):
        sizes = draw(st.lists(st.integers(1, 50), min_size=4, max_size=4))
        row = draw(st.lists(st.integers(0, 3), min_size=requests, max_size=requests))
        values.append(row)
        lengths.append([sizes[value] for value in row])
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    precedence = {(a, b) for a, b in draw(st.sets(pairs, max_size=3)) if a < b}
    return values, lengths, precedence


def allowed(order: Sequence[int], precedence: Collection[tuple[int, int]]) -> bool:
    return all(order.index(a) < order.index(b) for a, b in precedence)


@given(workloads())
def test_no_order_is_better(workload: tuple[list[list[int]], list[list[int]], set[tuple[int, int]]]) -> None:
    values, lengths, precedence = workload
    order, total = best_order(values, lengths, precedence)
    assert allowed(order, precedence)
    assert total == misses(values, lengths, order)
    every = [each for each in permutations(range(len(values))) if allowed(each, precedence)]
    assert total == min(misses(values, lengths, each) for each in every)
    ordered = [values[index] for index in order], [lengths[index] for index in order]
    assert best_order(*ordered)[1] <= total
    if not precedence:
        assert best_order(*ordered)[0] == list(range(len(values)))  # what is best already stays


def test_beyond_fifteen_segments_the_rule_decides() -> None:
    values = [[request % (index + 1) for request in range(60)] for index in range(20)]
    lengths = [[10] * 60 for _ in range(20)]
    order, total = best_order(values, lengths, [(19, 18)])
    # Equal lengths: the fewer values the earlier. Segment 18 would come before 19, which has to come before it.
    assert order == [*range(18), 19, 18]
    assert total == misses(values, lengths, order)
    with pytest.raises(ValueError, match="circle"):
        best_order(values, lengths, [(19, 18), (18, 19)])
