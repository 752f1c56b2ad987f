"""The lines of a text, with their places."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kvtool.text.structure.masking import Span


class PlacedLines:
    """The lines of a text: `shown` with spaces for carriage returns, `bare` without white space at their ends.

    Line n begins at `starts[n]`; there is one start more than there are lines.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.shown = text.replace("\r\n", " \n").replace("\r", " ").split("\n")
        self.bare = list(map(str.rstrip, self.shown))
        self.starts = list(accumulate([len(line) + 1 for line in self.shown], initial=0))
        self._ends: dict[int, Span] = {}

    def of(self, at: int) -> int:
        """The number of the line on which a character stands."""
        return bisect_right(self.starts, at) - 1

    def end(self, number: int) -> int:
        """Where what a line shows ends."""
        return self.starts[number] + len(self.bare[number])

    def last_of(self, first: int, stop: int) -> int:
        """The last line of `[first, stop)` that is not blank, or the first."""
        last = min(stop, len(self.bare)) - 1
        while last > first and not self.bare[last]:
            last -= 1
        return last

    def behind(self, number: int) -> int:
        """The line behind this one, or behind the blank one that is there."""
        number += 1
        return number + 1 if number < len(self.bare) and not self.bare[number] else number

    def whole(self, start: int, stop: int) -> Span:
        """A range with its indent, and with all of its lines where it is alone on them."""
        first, last = self.of(start), self.of(stop - 1)
        alone = start <= self._content(first)[0] and self._content(last)[1] <= stop
        return (self.starts[first], self.end(last)) if alone else (start, stop)

    def _content(self, number: int) -> Span:
        """Where what a line shows begins, and where it ends, signs between values left out."""
        if number not in self._ends:
            line, start = self.shown[number], self.starts[number]
            self._ends[number] = start + len(line) - len(line.lstrip()), start + len(line.rstrip(" \t\r,;"))
        return self._ends[number]
