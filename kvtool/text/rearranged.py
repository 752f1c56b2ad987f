"""Parts of a traced text in another order, with their origins."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.text.traced import Mark, Traced, concat


def rearranged(text: str, ranges: Sequence[tuple[int, int]]) -> Traced:
    """The concatenation of these ranges of a text."""
    traced = text if isinstance(text, Traced) else Traced(text)
    order = sorted(range(len(ranges)), key=lambda index: ranges[index])
    cursor = Cursor(traced)
    pieces: list[str] = [""] * len(ranges)
    for index in order:
        pieces[index] = cursor.cut(*ranges[index])
    return concat(pieces)


class Cursor:
    """Slices of a traced text in increasing order, in one pass over its marks."""

    def __init__(self, text: Traced) -> None:
        self._text = text
        self._mark = 0
        self._before = 0

    def cut(self, start: int, stop: int) -> Traced:
        marks = self._text.marks
        while self._mark < len(marks) and self._before + marks[self._mark].length <= start:
            self._before += marks[self._mark].length
            self._mark += 1
        found: list[Mark] = []
        index, at = self._mark, self._before
        while index < len(marks) and at < stop:
            length, origin, offset = marks[index]
            left, right = max(start - at, 0), min(stop - at, length)
            if left < right:
                found.append(Mark(right - left, origin, offset + left))
            at += length
            index += 1
        return Traced(str.__getitem__(self._text, slice(start, stop)), found)
