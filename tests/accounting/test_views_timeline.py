"""The hit rate over time: sums over windows, whatever their width, and the row of bars that shows it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.views.timeline import MOST_BINS, MOST_GROUPS, TimelineBook
from kvtool.report.terminal.profile_blocks.sparkline import hit_rates, sparkline
from kvtool.results.views import TimeBin, Timeline

requests = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 1000)).flatmap(
        lambda pair: st.tuples(st.just(pair[0]), st.just(pair[1]), st.integers(0, pair[1]))
    ),
    max_size=40,
)


def told(book: TimelineBook) -> dict[str | None, list[tuple[int, int, int, int]]]:
    return {
        line.group: [(each.first, each.requests, each.prompt_tokens, each.hit_tokens) for each in line.bins]
        for line in book.timelines()
    }


def test_one_bin_for_each_request_while_there_are_few() -> None:
    book = TimelineBook()
    assert book.timelines() == []
    book.add("a", 10, 0)
    book.add("b", 20, 5)
    book.add("a", 30, 30)
    assert told(book) == {
        None: [(0, 1, 10, 0), (1, 1, 20, 5), (2, 1, 30, 30)],
        "a": [(0, 1, 10, 0), (2, 1, 30, 30)],
        "b": [(1, 1, 20, 5)],
    }


@given(requests, st.integers(1, 40))
def test_against_sums_of_windows(some: list[tuple[str, int, int]], times: int) -> None:
    """The width is the smallest power of two with which so many windows are enough."""
    book = TimelineBook()
    given_ = some * times
    for group, tokens, hit in given_:
        book.add(group, tokens, hit)
    width = 1
    while len(given_) > width * MOST_BINS:
        width *= 2
    want: dict[str | None, dict[int, list[int]]] = {}
    for number, (group, tokens, hit) in enumerate(given_):
        for name in (None, group):
            sums = want.setdefault(name, {}).setdefault(number // width * width, [0, 0, 0])
            for place, value in enumerate((1, tokens, hit)):
                sums[place] += value
    assert told(book) == {name: [(first, *sums) for first, sums in sorted(bins.items())] for name, bins in want.items()}


def test_the_largest_groups_in_the_order_of_their_first_requests() -> None:
    book = TimelineBook()
    for number in range(MOST_GROUPS + 5):
        book.add(f"g{number}", 1 if number % 9 == 0 else 100 + number, 0)  # g0, g9, g18, g27 and g36 are the smallest
    names = [line.group for line in book.timelines()]
    assert names == [None, *(f"g{number}" for number in range(MOST_GROUPS + 5) if number % 9)]


def test_one_request_more_than_there_are_bins() -> None:
    book = TimelineBook()
    for number in range(MOST_BINS + 1):
        book.add("g", number, 0)
    bins = book.timelines()[0].bins
    assert len(bins) == MOST_BINS // 2 + 1
    assert [(each.first, each.requests, each.prompt_tokens) for each in (bins[0], bins[-1])] == [
        (0, 2, 1),
        (120, 1, 120),
    ]


def test_memory_does_not_grow_with_requests() -> None:
    book = TimelineBook()
    for number in range(10_000):
        book.add("ab"[number % 2], 7, 3)
    lines = book.timelines()
    assert all(MOST_BINS // 2 <= len(line.bins) <= MOST_BINS for line in lines)
    assert [sum(each.requests for each in line.bins) for line in lines] == [10_000, 5_000, 5_000]
    assert sum(each.hit_tokens for each in lines[0].bins) == 30_000


def line(*bins: tuple[int, int, int]) -> Timeline:
    return Timeline(
        group="g",
        bins=[TimeBin(first=first, requests=1, prompt_tokens=tokens, hit_tokens=hit) for first, tokens, hit in bins],
    )


def test_the_row_of_bars() -> None:
    assert sparkline([(0, 8), (1, 8), (7, 8), (8, 8), (0, 0), (3, 7)], plain=False) == "▁▂██ ▄"
    assert sparkline([(0, 8), (1, 8), (7, 8), (8, 8), (0, 0), (3, 7)], plain=True) == ".:## -".replace("-", "=")


def test_bins_of_a_group_are_spread_over_the_time_that_it_ran() -> None:
    assert hit_rates(line(), 4) == []
    assert hit_rates(line((6, 10, 5)), 4) == [(5, 10)]
    # Windows 2, 4 and 8, of two requests each; in 6 there was none.
    assert hit_rates(line((2, 10, 1), (4, 10, 2), (8, 10, 3)), 12) == [(1, 10), (2, 10), (0, 0), (3, 10)]
    assert hit_rates(line((2, 10, 1), (4, 10, 2), (8, 10, 3)), 2) == [(3, 20), (3, 10)]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=30), st.integers(1, 12))
def test_no_token_is_lost_on_the_way_to_the_row(bins: list[tuple[int, int]], cells: int) -> None:
    firsts = [4 * sum(step for step, _ in bins[: number + 1]) for number in range(len(bins))]
    timeline = line(*((first, 9, hit) for first, (_, hit) in zip(firsts, bins, strict=True)))
    shown = hit_rates(timeline, cells)
    assert 1 <= len(shown) <= cells
    assert sum(hit for hit, _ in shown) == sum(hit for _, hit in bins)
    assert sum(tokens for _, tokens in shown) == 9 * len(bins)
    assert shown[0][1]
