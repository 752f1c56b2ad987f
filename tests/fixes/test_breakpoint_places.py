"""Cache breakpoints: against every other choice, with prices and the minimum of a provider."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.profiler.optimize.breakpoint_plan import place_breakpoints

Request = list[tuple[str, int]]


def cost(requests: Sequence[Request], breakpoints: Sequence[int], *, read: float, write: float, minimum: int) -> float:
    """What requests cost one after the other: the longest stored prefix is read, the rest up to the last breakpoint written."""
    stored: set[tuple[tuple[str, int], ...]] = set()
    total = 0.0
    for request in requests:
        marks = [at for at in breakpoints if at <= len(request) and sum(n for _, n in request[:at]) >= max(minimum, 1)]
        hit = max((at for at in marks if tuple(request[:at]) in stored), default=0)
        last = max(marks, default=0)
        tokens = [n for _, n in request]
        total += read * sum(tokens[:hit]) + write * sum(tokens[hit:last]) + sum(tokens[last:])
        stored.update(tuple(request[:at]) for at in marks)
    return total


def test_one_shared_prompt() -> None:
    requests = [[("rules", 1000), (f"question {n}", 10)] for n in range(5)]
    places, total = place_breakpoints(requests, read=0.1, write=1.25, minimum=0)
    assert places == [1]  # to store the questions would cost a quarter more and win nothing
    assert total == pytest.approx(1250 + 4 * 100 + 5 * 10)


def test_nothing_is_shared() -> None:
    requests = [[(f"question {n}", 100)] for n in range(3)]
    assert place_breakpoints(requests, read=0.1, write=1.25, minimum=0) == ([], 300.0)


def test_a_prefix_below_the_minimum_is_not_stored() -> None:
    requests = [[("rules", 1000), (f"question {n}", 10)] for n in range(5)]
    assert place_breakpoints(requests, read=0.1, write=1.25, minimum=1024) == ([], 5050.0)


def test_no_requests() -> None:
    assert place_breakpoints([], read=0.1, write=1.25, minimum=0) == ([], 0.0)
    assert place_breakpoints([[]], read=0.1, write=1.25, minimum=0) == ([], 0.0)


blocks = st.tuples(st.sampled_from("abc"), st.sampled_from([1, 5, 40]))


@given(
    st.lists(st.lists(blocks, max_size=6), min_size=1, max_size=6),
    st.integers(0, 3),
    st.sampled_from([0, 6, 41]),
    st.sampled_from([(0.1, 1.25), (0.5, 1.0), (0.1, 2.0)]),
)
def test_no_choice_is_cheaper(requests: list[Request], most: int, minimum: int, prices: tuple[float, float]) -> None:
    read, write = prices
    places, total = place_breakpoints(requests, read=read, write=write, minimum=minimum, most=most)
    assert len(places) <= most
    assert total == pytest.approx(cost(requests, places, read=read, write=write, minimum=minimum))
    m = max(map(len, requests))
    every = [chosen for k in range(most + 1) for chosen in combinations(range(1, m + 1), k)]
    assert total == pytest.approx(min(cost(requests, each, read=read, write=write, minimum=minimum) for each in every))
