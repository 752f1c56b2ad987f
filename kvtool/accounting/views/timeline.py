"""The hit rate in the course of a run, in memory that does not grow with its requests."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kvtool.accounting.counts import Counts
from kvtool.results.views import TimeBin, Timeline

MOST_BINS = 120
"""Windows of a drawn timeline."""
MOST_GROUPS = 40
"""Groups with a timeline in a report."""
_FIELDS = 3
"""Requests, prompt tokens and hit tokens."""


class TimelineBook:
    """Sum requests, in the order in which they are settled, over windows of equally many.

    The windows are those of all requests together, so that all timelines have one axis. Above `MOST_BINS` windows, their width
    doubles, and neighbours are added up.
    """

    def __init__(self) -> None:
        self._width = 1
        self._settled = 0
        self._total = array("q")
        self._groups: dict[str, array[int]] = {}

    def add(self, group: str, prompt_tokens: int, hit_tokens: int) -> None:
        """Add the next request."""
        window = self._window()
        self._settled += 1
        of_group = self._groups.get(group)
        if of_group is None:
            of_group = self._groups[group] = array("q")
        for bins in (self._total, of_group):
            _add(bins, window, 1, prompt_tokens, hit_tokens)

    def add_all(self, names: Sequence[str], group: Counts, prompt_tokens: Counts, hit_tokens: Counts) -> None:
        """Add the next requests, one of each in each array; `group` has the numbers of their `names`."""
        start = 0
        while start < len(group):
            window = self._window()
            stop = min(start + (window + 1) * self._width - self._settled, len(group))
            of, prompts, hits = group[start:stop], prompt_tokens[start:stop], hit_tokens[start:stop]
            _add(self._total, window, stop - start, int(prompts.sum()), int(hits.sum()))
            for number in dict.fromkeys(of.tolist()):
                mine = of == number
                bins = self._groups.setdefault(names[number], array("q"))
                _add(bins, window, int(mine.sum()), int(prompts[mine].sum()), int(hits[mine].sum()))
            self._settled += stop - start
            start = stop

    def _window(self) -> int:
        """Return the window of the next request, after making room for it."""
        window = self._settled // self._width
        if window == MOST_BINS:
            self._total = _halved(self._total)
            for name, bins in self._groups.items():
                self._groups[name] = _halved(bins)
            self._width *= 2
            window //= 2
        return window

    def timelines(self) -> list[Timeline]:
        """Return the timeline of all requests, then those of the groups with the most prompt tokens, in the order of their first
        requests."""
        if not self._settled:
            return []
        largest = sorted(self._groups, key=lambda name: -sum(self._groups[name][1::_FIELDS]))[:MOST_GROUPS]
        shown = set(largest)
        return [
            Timeline(group=None, bins=self._bins(self._total)),
            *(Timeline(group=name, bins=self._bins(bins)) for name, bins in self._groups.items() if name in shown),
        ]

    def _bins(self, bins: array[int]) -> list[TimeBin]:
        """Return the windows with requests."""
        return [
            TimeBin(
                first=at // _FIELDS * self._width,
                requests=bins[at],
                prompt_tokens=bins[at + 1],
                hit_tokens=bins[at + 2],
            )
            for at in range(0, len(bins), _FIELDS)
            if bins[at]
        ]


def _add(bins: array[int], window: int, requests: int, prompt_tokens: int, hit_tokens: int) -> None:
    at = _FIELDS * window
    if at >= len(bins):
        bins.extend([0] * (at + _FIELDS - len(bins)))
    bins[at] += requests
    bins[at + 1] += prompt_tokens
    bins[at + 2] += hit_tokens


def _halved(bins: array[int]) -> array[int]:
    """Join pairs of windows, in all timelines."""
    if len(bins) // _FIELDS % 2:
        bins.extend([0] * _FIELDS)
    halved = array("q", [0]) * (len(bins) // 2)
    for field in range(_FIELDS):
        even, odd = bins[field :: 2 * _FIELDS], bins[field + _FIELDS :: 2 * _FIELDS]
        halved[field::_FIELDS] = array("q", map(int.__add__, even, odd))
    return halved
