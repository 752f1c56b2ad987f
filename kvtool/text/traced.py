"""Text that knows where it came from.

`Traced` is a `str` that carries, for runs of its characters, the `Origin` they were written in. It survives the operations that
templates perform on text (concatenation, slicing, stripping, splitting, replacing, joining), so that a token of a finished prompt
can be led back to a line of a file, a message or a template variable.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, SupportsIndex

from kvtool.text.line_index import LineIndex

_FIRST_LINE = 1
_MANY = 16
"""Marks above which a part of a text is found by bisection."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The place where a part of a text was written.

    `line` and `column` (1-based) are those of its first character; `indent` is the column at which its following lines begin (an
    indented YAML block scalar). `verbatim` says that the text is in the file as it is; else (a rendered variable, a JSON
    string with escapes) every character answers with the first one's position. `pointer` leads to the value inside a JSON
    document. `part` names the message, segment or template it belongs to, `variable` the template variable that produced it,
    `stable` what the author declared of it, `width` the length of its template expression, and `text` is the whole text that
    `Mark.offset` counts in. `one_of_many`: other requests have another file in its place, so its path says no place of a prompt.
    """

    path: str
    line: int = _FIRST_LINE
    column: int = 1
    indent: int = 1
    verbatim: bool = True
    pointer: tuple[str | int, ...] = ()
    part: str = ""
    variable: str | None = None
    stable: bool | None = None
    width: int = 1
    text: str = field(default="", repr=False, compare=False)
    one_of_many: bool = False
    _lines: LineIndex | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def shared(self) -> bool:
        """Return whether requests are rendered from this very text, so that a line of its file is a place in all of them."""
        return self.verbatim and not self.pointer and not self.one_of_many

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in the file of the character at `offset` of the origin's text."""
        if not self.verbatim:
            return self.line, self.column
        line, column = self.lines.position(offset)
        if line == 1:
            return self.line, self.column + offset
        return self.line + line - 1, self.indent + column - 1

    @property
    def lines(self) -> LineIndex:
        """The lines of its text, found when they are asked for the first time."""
        if self._lines is None:
            object.__setattr__(self, "_lines", LineIndex(self.text))
            assert self._lines is not None
        return self._lines


class Mark(NamedTuple):
    """`length` characters that are at `offset` in the text of `origin`; None is text whose origin was lost or never known."""

    length: int
    origin: Origin | None
    offset: int


def _cut(marks: tuple[Mark, ...], start: int, stop: int) -> Iterator[Mark]:
    at = 0
    for length, origin, offset in marks:
        left, right = max(start - at, 0), min(stop - at, length)
        if left < right:
            yield Mark(right - left, origin, offset + left)
        at += length
        if at >= stop:
            return


def _marks_between(marks: Sequence[Mark], starts: Sequence[int], start: int, stop: int) -> Iterator[Mark]:
    """Yield the marks of a part of a text, without going through those before it. `starts`: where each mark begins."""
    number = max(bisect_right(starts, start) - 1, 0)
    while number < len(marks) and starts[number] < stop:
        length, origin, offset = marks[number]
        left, right = max(start - starts[number], 0), min(stop - starts[number], length)
        if left < right:
            yield Mark(right - left, origin, offset + left)
        number += 1


def _merged(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    result: list[Mark] = []
    for mark in marks:
        if not mark.length:
            continue
        if result:
            last = result[-1]
            if last.origin is mark.origin and (mark.origin is None or last.offset + last.length == mark.offset):
                result[-1] = Mark(last.length + mark.length, last.origin, last.offset)
                continue
        result.append(mark)
    return tuple(result)


class Traced(str):
    """A string with the origins of its characters. Equal to, and hashed like, the plain string."""

    __slots__ = ("_starts", "marks")
    marks: tuple[Mark, ...]
    _starts: list[int]

    def __new__(cls, text: str, marks: Iterable[Mark] | None = None) -> Traced:
        self = super().__new__(cls, str.__str__(text))
        self.marks = marks_of(text) if marks is None else _merged(marks)
        return self

    @classmethod
    def of(cls, text: str, origin: Origin) -> Traced:
        """All of `text`, written at `origin`."""
        return cls(text, (Mark(len(text), origin, 0),))

    @classmethod
    def with_marks(cls, text: str, marks: tuple[Mark, ...]) -> Traced:
        """Return a text with marks that are whole: no two neighbours are one stretch of an origin."""
        return _whole(text, marks)

    def at(self, index: int) -> tuple[Origin | None, int]:
        """The origin of character `index` and its offset in that origin's text."""
        if len(self.marks) > _MANY and 0 <= index < len(self):
            number = bisect_right(self._mark_starts(), index) - 1
            _, origin, offset = self.marks[number]
            return origin, offset + index - self._starts[number]
        seen = 0
        for length, origin, offset in self.marks:
            if index < seen + length:
                return origin, offset + index - seen
            seen += length
        raise IndexError(index)

    # The overrides below return Traced where str returns str: Liskov holds, as Traced is a str.
    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> Traced:
        if not isinstance(other, str):
            return NotImplemented
        return Traced(str.__add__(self, other), (*self.marks, *marks_of(other)))

    def __radd__(self, other: str) -> Traced:
        if not isinstance(other, str):
            return NotImplemented
        return Traced(str.__add__(other, self), (*marks_of(other), *self.marks))

    def __getitem__(self, key: SupportsIndex | slice) -> Traced:
        if not isinstance(key, slice):
            index = operator.index(key)
            index += len(self) if index < 0 else 0
            key = slice(index, index + 1) if index >= 0 else slice(0, 0)
            if not str.__getitem__(self, key):
                raise IndexError("string index out of range")
        text = str.__getitem__(self, key)
        start, stop, step = key.indices(len(self))
        if step != 1:
            return Traced(text, (Mark(len(text), None, 0),))
        marks = self.marks
        if len(marks) == 1:  # most texts were written at one place
            _, origin, offset = marks[0]
            return _whole(text, (Mark(len(text), origin, offset + start),) if text else ())
        if len(marks) > _MANY:
            return Traced(text, _marks_between(marks, self._mark_starts(), start, stop))
        return Traced(text, _cut(marks, start, stop))

    def _mark_starts(self) -> list[int]:
        """Return where each mark begins, in characters; found when a text of many is cut for the first time."""
        try:
            return self._starts
        except AttributeError:
            self._starts = list(accumulate((mark.length for mark in self.marks), initial=0))
            return self._starts

    def __mul__(self, count: SupportsIndex) -> Traced:
        return Traced(str.__mul__(self, count), self.marks * max(count.__index__(), 0))

    def strip(self, chars: str | None = None, /) -> Traced:
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> Traced:
        return self[len(self) - len(str.lstrip(self, chars)) :]

    def rstrip(self, chars: str | None = None, /) -> Traced:
        return self[: len(str.rstrip(self, chars))]

    def removeprefix(self, prefix: str, /) -> Traced:
        return self[len(prefix) :] if prefix and self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> Traced:
        return self[: -len(suffix)] if suffix and self.endswith(suffix) else self

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._found(str.split(self, sep, maxsplit))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._found(str.rsplit(self, sep, maxsplit))

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self._found(str.splitlines(self, keepends))

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        a, b, c = self._found(list(str.partition(self, sep)))
        return a, b, c

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Traced:
        if not old:
            text = str.replace(self, old, new, count)
            return Traced(text, (Mark(len(text), None, 0),))
        limit = count.__index__()
        ranges: list[tuple[int, int]] = []
        at = 0
        while limit != 0 and (found := self.find(old, at)) >= 0:
            ranges.append((at, found))
            at = found + len(old)
            limit -= 1
        ranges.append((at, len(self)))
        pieces: list[str] = []
        for piece in self._slices(ranges):
            pieces += [new, piece] if pieces else [piece]
        return concat(pieces)

    def join(self, items: Iterable[str], /) -> Traced:
        pieces: list[str] = []
        for item in items:
            pieces += [self, item] if pieces else [item]
        return concat(pieces)

    def upper(self) -> Traced:
        return self._changed(str.upper(self))

    def lower(self) -> Traced:
        return self._changed(str.lower(self))

    def capitalize(self) -> Traced:
        return self._changed(str.capitalize(self))

    def title(self) -> Traced:
        return self._changed(str.title(self))

    def _changed(self, text: str) -> Traced:
        """A text whose characters mean ours one by one; where their number has changed the origins are lost."""
        return Traced(text, self.marks if len(text) == len(self) else (Mark(len(text), None, 0),))

    def _found(self, pieces: list[str]) -> list[str]:
        """The pieces of a split, each with its marks: they are in the text in this order."""
        ranges: list[tuple[int, int]] = []
        at = 0
        for piece in pieces:
            at = self.index(piece, at)
            ranges.append((at, at + len(piece)))
            at += len(piece)
        return list(self._slices(ranges))

    def _slices(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Traced]:
        """Several slices, in order and apart, in one pass over the marks."""
        marks = self.marks
        first = before = 0
        for start, stop in ranges:
            while first < len(marks) and before + marks[first].length <= start:
                before += marks[first].length
                first += 1
            found: list[Mark] = []
            index, at = first, before
            while index < len(marks) and at < stop:
                length, origin, offset = marks[index]
                left, right = max(start - at, 0), min(stop - at, length)
                found.append(Mark(right - left, origin, offset + left))
                at += length
                index += 1
            yield Traced(str.__getitem__(self, slice(start, stop)), found)


def _whole(text: str, marks: tuple[Mark, ...]) -> Traced:
    """A text with marks that need not be merged."""
    made = str.__new__(Traced, text)
    made.marks = marks
    return made


def first_origin(text: str) -> Origin | None:
    """Return where the first character of a text with a place was read."""
    return next((mark.origin for mark in marks_of(text) if mark.origin is not None), None)


def marks_of(text: str) -> tuple[Mark, ...]:
    """The marks of a text; a plain string is one stretch of unknown origin."""
    if isinstance(text, Traced):
        return text.marks
    return (Mark(len(text), None, 0),) if text else ()


def concat(pieces: Iterable[object]) -> Traced:
    """`"".join` that keeps origins; other objects are turned into text first."""
    texts = [piece if isinstance(piece, str) else str(piece) for piece in pieces]
    return Traced("".join(texts), [mark for text in texts for mark in marks_of(text)])


def line_around(text: str, index: int) -> tuple[int, int]:
    """Start and end (after its newline) of the line of `text` that holds character `index`."""
    start = text.rfind("\n", 0, index) + 1
    end = text.find("\n", index) + 1
    return start, end or len(text)


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
        found = _marks_between(self._marks, self._starts, start, stop)
        return Traced(str.__getitem__(self._text, slice(start, stop)), found)
