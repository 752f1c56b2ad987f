"""Parts of a traced text in another order, with their origins."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.text.traced import Mark, Traced, marks_of


def rearranged(text: str, parts: Sequence[tuple[int, int] | str]) -> Traced:
    """The concatenation of these ranges of a text and, between them, of text from elsewhere."""
    traced = text if isinstance(text, Traced) else Traced(text)
    plain = str.__str__(traced)
    ranges = [part for part in parts if not isinstance(part, str)]
    marks: dict[tuple[int, int], list[Mark]] = {}
    cursor = Cursor(traced)
    for start, stop in sorted(ranges):
        marks[start, stop] = cursor.marks(start, stop)
    pieces: list[str] = []
    found: list[Mark] = []
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
            found += marks_of(part)
        else:
            pieces.append(plain[part[0] : part[1]])
            found += marks[part]
    return Traced("".join(pieces), found)


class Cursor:
    """Slices of a traced text in increasing order, in one pass over its marks."""

    def __init__(self, text: Traced) -> None:
        self._text = text
        self._mark = 0
        self._before = 0

    def cut(self, start: int, stop: int) -> Traced:
        """The text of a range."""
        return Traced(str.__getitem__(self._text, slice(start, stop)), self.marks(start, stop))

    def marks(self, start: int, stop: int) -> list[Mark]:
        """The marks of a range."""
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
        return found
