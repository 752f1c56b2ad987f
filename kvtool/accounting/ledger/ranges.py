"""Ranges of tokens of many prompts, some machine words for each range."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    """Ranges `[start, stop)` of each owner (0, 1, …), in order and apart. Adjacent ones are joined."""

    def __init__(self) -> None:
        self._first = array("q")
        """Start of the ranges of each owner in `_starts` and `_stops`, and their number."""
        self._count = array("i")
        self._starts = array("i")
        self._stops = array("i")

    def put(self, owner: int, ranges: Iterable[tuple[int, int]]) -> None:
        """Set the ranges of an owner that has none yet."""
        missing = owner + 1 - len(self._first)
        if missing > 0:
            self._first.extend([0] * missing)
            self._count.extend([0] * missing)
        first = self._first[owner] = len(self._starts)
        for start, stop in ranges:
            if len(self._starts) > first and self._stops[-1] == start:
                self._stops[-1] = stop
            else:
                self._starts.append(start)
                self._stops.append(stop)
        self._count[owner] = len(self._starts) - first

    def outside(self, owner: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the parts of `[start, stop)` outside of the owner's ranges, in order."""
        at = start
        if owner < len(self._first):
            first = self._first[owner]
            end = first + self._count[owner]
            index = bisect_right(self._stops, start, first, end)
            while index < end and self._starts[index] < stop:
                if at < self._starts[index]:
                    yield at, self._starts[index]
                at = self._stops[index]
                index += 1
        if at < stop:
            yield at, stop
