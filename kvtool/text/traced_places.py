"""Where the characters of a text stand in its files, for a long text that is asked for many of them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kvtool.text.traced import Mark, Origin, Traced


class TracedPlaces:
    """The places of a text's characters, each found in the logarithm of what the text is made of."""

    def __init__(self, text: Traced) -> None:
        self._text = text
        self._marks = [mark for mark in text.marks if mark.length]
        self._starts = [0, *accumulate(mark.length for mark in self._marks)]

    def position(self, index: int) -> tuple[Origin | None, int, int]:
        """The origin of character `index` of a text that is not empty, and its line and column there."""
        number = min(bisect_right(self._starts, index), len(self._marks)) - 1
        mark = self._marks[number]
        if mark.origin is None:
            return None, 1, 1
        return mark.origin, *mark.origin.position(mark.offset + index - self._starts[number])

    def part(self, start: int, stop: int) -> Traced:
        """`text[start:stop]`, without going through the marks before it."""
        number = max(bisect_right(self._starts, start) - 1, 0)
        found: list[Mark] = []
        while number < len(self._marks) and self._starts[number] < stop:
            length, origin, offset = self._marks[number]
            left, right = max(start - self._starts[number], 0), min(stop - self._starts[number], length)
            found.append(Mark(right - left, origin, offset + left))
            number += 1
        return Traced(str.__getitem__(self._text, slice(start, stop)), found)
