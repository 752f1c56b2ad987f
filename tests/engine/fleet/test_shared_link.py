"""Transfers that share a link, worked by hand and beside a simulation in tiny steps."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.shared_link import SharedLink

Ends = dict[int, float]


def run(link: SharedLink, asked: list[tuple[float, int]]) -> Ends:
    """When transfers end that are asked for at these moments."""
    ends: Ends = {}
    for number, (moment, size) in enumerate(asked):
        ends.update((name, end) for end, name in link.advance(moment))
        link.start(number, size, moment)
    while (event := link.next_event()) < inf:
        before = len(ends), link.next_event()
        ends.update((name, end) for end, name in link.advance(event))
        assert (len(ends), link.next_event()) != before, "an event that changes nothing"
    assert not len(link)
    assert link.left() == 0
    return ends


def brute(bandwidth: float, latency: float, asked: list[tuple[float, int]], step: float) -> Ends:
    left = {number: float(size) for number, (_, size) in enumerate(asked)}
    ends: Ends = {}
    now = 0.0
    while left:
        sharing = [number for number in left if asked[number][0] + latency <= now]
        for number in sharing:
            left[number] -= step * bandwidth / len(sharing)
        now += step
        for number in sharing:
            if left[number] <= 0:
                del left[number]
                ends[number] = now
    return ends


def test_one_alone_takes_latency_and_bytes_over_bandwidth() -> None:
    assert run(SharedLink(100.0, 0.5), [(1.0, 200)]) == {0: 3.5}


def test_two_at_once_take_twice_as_long() -> None:
    assert run(SharedLink(100.0), [(0.0, 100), (0.0, 100)]) == {0: 2.0, 1: 2.0}


def test_one_that_comes_later_slows_the_first_down() -> None:
    # 0: alone for 1 s (100 of 200 bytes), then half the link: 100 more until 3. 1: 100 bytes by then, 50 left alone until 3.5.
    assert run(SharedLink(100.0), [(0.0, 200), (1.0, 150)]) == {0: 3.0, 1: 3.5}


def test_latency_takes_no_part_of_the_link() -> None:
    # 1 joins at 1.5: 0 has 50 bytes left then, and ends at 2.5.
    assert run(SharedLink(100.0, 0.5), [(0.0, 150), (1.0, 100)]) == {0: 2.5, 1: 3.0}


def test_an_infinite_link_takes_its_latency_alone() -> None:
    assert run(SharedLink(inf, 0.25), [(0.0, 10**12), (0.0, 1), (2.0, 5)]) == {0: 0.25, 1: 0.25, 2: 2.25}


def test_what_a_transfer_would_take_now() -> None:
    link = SharedLink(100.0, 0.5)
    assert link.seconds(100) == 1.5
    link.start(0, 50, 0.0)
    link.advance(0.5)
    link.start(1, 400, 0.5)
    link.advance(0.75)  # 25 of 50 bytes are left of the first, and the second still waits
    assert link.seconds(100) == 0.5 + (100 + 25 + 100) / 100


def test_a_link_that_moves_nothing_is_refused() -> None:
    for bandwidth in [0.0, -1.0, float("nan")]:
        with pytest.raises(EngineError, match="the bandwidth of a link must be above"):
            SharedLink(bandwidth)


def test_a_latency_without_an_end_is_refused() -> None:
    for latency in [-0.1, inf, float("nan")]:
        with pytest.raises(EngineError, match="latency"):
            SharedLink(1.0, latency)


transfers = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), min_size=1, max_size=8)


@given(transfers, st.sampled_from([1.0, 7.0, 30.0]), st.sampled_from([0.0, 0.25, 3.0]))
def test_like_a_simulation_in_tiny_steps(asked: list[tuple[int, int]], bandwidth: float, latency: float) -> None:
    step = 1 / 512
    ordered = [(float(moment), size) for moment, size in sorted(asked)]
    link = SharedLink(bandwidth, latency)
    exact, stepped = run(link, ordered), brute(bandwidth, latency, ordered, step)
    assert exact.keys() == stepped.keys()
    for number, end in exact.items():
        assert abs(end - stepped[number]) <= step * (2 * len(asked) + 2)
    assert link.num_bytes == sum(size for _, size in asked)


@given(transfers, st.sampled_from([1.0, 7.0, 30.0]), st.sampled_from([0.0, 0.25]), st.integers(1, 60))
def test_what_is_told_of_the_next_is_what_it_takes(
    asked: list[tuple[int, int]], bandwidth: float, latency: float, size: int
) -> None:
    link = SharedLink(bandwidth, latency)
    for number, (moment, each) in enumerate(sorted(asked)):
        link.advance(moment)
        link.start(number, each, moment)
    now = float(max(moment for moment, _ in asked))
    link.advance(now)
    told = link.seconds(size)
    link.start(len(asked), size, now)
    ends: Ends = {}
    while (event := link.next_event()) < inf:
        ends.update((name, end) for end, name in link.advance(event))
    took = ends[len(asked)] - now
    if latency:
        assert took <= told * (1 + 1e-9)
    else:
        assert took == pytest.approx(told)
