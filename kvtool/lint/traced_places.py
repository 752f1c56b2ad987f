"""Where parts of a text stand in its file, for one whose characters know that."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kvtool.lint.skeleton import TemplatePlace
from kvtool.text.traced import Traced


class TracedPlaces:
    """The places of a text's parts."""

    def __init__(self, text: Traced) -> None:
        self._marks = [mark for mark in text.marks if mark.length]
        self._starts = [0, *accumulate(mark.length for mark in self._marks)]

    def at(self, start: int, stop: int) -> TemplatePlace:
        """The place of `text[start:stop]`, as wide as it is on its first line."""
        path, line, column = self._position(start)
        _, last, end = self._position(max(stop - 1, start))
        return TemplatePlace(path, line, column, max(end - column + 1, 1) if last == line else stop - start)

    def _position(self, index: int) -> tuple[str, int, int]:
        number = min(bisect_right(self._starts, index), len(self._marks)) - 1
        mark = self._marks[number]
        assert mark.origin is not None  # every character of a prompt in a file stands there
        line, column = mark.origin.position(mark.offset + index - self._starts[number])
        return mark.origin.path, line, column
