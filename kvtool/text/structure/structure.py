"""A text as a tree of units, in about linear time: Markdown, elements, data, listings, sentences, whichever of them it has."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache

from kvtool.text.structure.block_ranges import BlockRanges
from kvtool.text.structure.masking import Span, placeholders
from kvtool.text.structure.prose import prose_units, single_line
from kvtool.text.structure.raw_unit import RawUnit, nested, unit_of
from kvtool.text.structure.text_unit import TextUnit

MOST_CHARACTERS = 4_000_000
MOST_LINES = 20_000
"""Of longer texts, and of those of more lines that are shorter than 32 characters in the mean, nothing is known but their lines."""

_INLINE = frozenset({"data", "element"})
"""Units that may be within a line of text."""
_ALIKE = re.compile(r"(?<![<\w/\\])[A-Za-z]{0,16}\d[\w-]*+")
"""Numbers and identifiers: which one it is says nothing about the structure."""
_KEPT = 64
_MOST_PATHS = 256
_MOST_GIVEN = 8
_SHORT = 1 << 16
_KEPT_LINES = 2048
_SHORT_LINE = 512
_KEPT_LONG = 2
"""Texts of at most so many characters are kept, and the last two of others: one is asked for each place, value and fix in turn."""


class Structure:
    """The units of a text. Blocks are found at once, what paragraphs are made of where it is asked for."""

    def __init__(self, text: str) -> None:
        self.text = str.__str__(text)
        self._solid: list[Span] = placeholders(self.text)
        readable = len(self.text) <= MOST_CHARACTERS and self.text.count("\n") <= max(MOST_LINES, len(self.text) // 32)
        raws = BlockRanges(self.text).raws() if readable else []
        self.blocks = nested("document", 0, len(self.text), raws)
        """The tree down to paragraphs; an item of one line is one."""
        self._given: list[tuple[Span, ...]] = []
        """Values that were asked with: a path and a paragraph are kept by the number of theirs."""
        self._paths: dict[tuple[int, int, int], list[TextUnit]] = {}
        self._kept: dict[tuple[int, int, int], TextUnit] = {}

    def path(self, start: int, stop: int, values: Sequence[Span] = ()) -> list[TextUnit]:
        """The units that hold all of `[start, stop)`, the document first, the smallest last; no sentence ends in `values`."""
        number = self._number(tuple(values))
        key = start, stop, number
        if key not in self._paths:
            if len(self._paths) >= _MOST_PATHS:
                self._paths.clear()
            self._paths[key] = self._found(start, stop, number)
        return self._paths[key]

    def _number(self, values: tuple[Span, ...]) -> int:
        """The number of values that were asked with, if only just, or a new one."""
        for number, known in enumerate(self._given):
            if known is values or known == values:
                return number
        if len(self._given) >= _MOST_GIVEN:
            self._given.clear()
            self._paths.clear()
            self._kept.clear()
        self._given.append(values)
        return len(self._given) - 1

    def blocks_around(self, start: int, stop: int) -> list[TextUnit]:
        """The units that hold all of `[start, stop)`, down to the paragraph, the document first."""
        found = [self.blocks]
        while found[-1].kind != "paragraph" and (child := _child(self._plain_text(found[-1]), start, stop)):
            found.append(child)
        return found

    def _found(self, start: int, stop: int, number: int) -> list[TextUnit]:
        found = self.blocks_around(start, stop)
        leaf = found[-1]
        if leaf.kind == "document":
            leaf = TextUnit("paragraph", *self._lines_around(start, stop), 0)
        if leaf.kind == "paragraph":
            found = [*(found if found[-1] is not leaf else found[:-1]), self._once_read(leaf, number)]
            while child := _child(found[-1], start, stop):
                found.append(child)
        return found

    def _once_read(self, unit: TextUnit, number: int) -> TextUnit:
        """`_read`: the last paragraphs are kept, for each is asked for all that varies in it."""
        key = unit.start, unit.stop, number
        if key not in self._kept:
            if len(self._kept) >= _MOST_GIVEN:
                self._kept.clear()
            self._kept[key] = self._read(unit, self._given[number])
        return self._kept[key]

    def _read(self, unit: TextUnit, values: Sequence[Span] = ()) -> TextUnit:
        """A paragraph with what it is made of; what is in it as one piece is in one of its sentences."""
        if not unit.children and (one := single_line(self.text, unit.start, unit.stop)) is not None:
            return unit_of("paragraph", unit.start, unit.stop, unit.start, one)
        inside = [RawUnit(*below[:4]) for child in unit.children for below in _all_in(child)]
        solid = {*self._solid_in(unit.start, unit.stop), *values, *((each.start, each.stop) for each in inside)}
        raws = prose_units(self.text, unit.start, unit.stop, sorted(solid))
        return nested("paragraph", unit.start, unit.stop, [*raws, *inside])

    def tree(self) -> TextUnit:
        """All of it, sentences included."""
        return self._whole(self.blocks)

    def _plain_text(self, unit: TextUnit) -> TextUnit:
        """A unit; an item of one line with its paragraph."""
        kind, start, stop, body, children = unit
        if kind != "item" or body >= stop or (children and any(each.kind not in _INLINE for each in children)):
            return unit
        return TextUnit(kind, start, stop, body, (TextUnit("paragraph", body, stop, body, children),))

    def _whole(self, unit: TextUnit) -> TextUnit:
        kind, start, stop, body, children = unit
        if kind == "item":
            if not children and body < stop and (one := single_line(self.text, body, stop)) is not None:
                return unit_of(kind, start, stop, body, (unit_of("paragraph", body, stop, body, one),))
            children = self._plain_text(unit).children
        elif kind == "paragraph":
            return self._read(unit)
        return unit_of(kind, start, stop, body, tuple(map(self._whole, children))) if children else unit

    def _solid_in(self, low: int, high: int) -> list[Span]:
        first = bisect_left(self._solid, (low, low))
        return [span for span in self._solid[first : bisect_right(self._solid, (high, high))] if span[1] <= high]

    def _lines_around(self, start: int, stop: int) -> Span:
        """The lines of a range that is in no block: around a tag, or of a text that is too long to be read."""
        low = self.text.rfind("\n", 0, start) + 1
        high = self.text.find("\n", stop)
        return low, len(self.text) if high < 0 else high


@lru_cache(maxsize=_KEPT)
def _of_short(text: str) -> Structure:
    return Structure(text)


@lru_cache(maxsize=_KEPT_LONG)
def _of_long(text: str) -> Structure:
    return Structure(text)


def structure_of(text: str) -> Structure:
    """The structure of a text; the last few are kept, each for all texts that differ from it in numbers alone."""
    alike = _alike(str.__str__(text))
    return _of_short(alike) if len(alike) <= _SHORT else _of_long(alike)


@lru_cache(maxsize=_KEPT_LONG)
def _alike(text: str) -> str:
    """A text with all its numbers and identifiers alike; made once where one text is asked for each of its differences."""
    return "\n".join(map(_line_alike, text.split("\n")))


def _line_alike(line: str) -> str:
    """A line with all its numbers and identifiers alike: none of them goes on after its end."""
    return _short_alike(line) if len(line) <= _SHORT_LINE else _ALIKE.sub(_ones, line)


@lru_cache(maxsize=_KEPT_LINES)
def _short_alike(line: str) -> str:
    return _ALIKE.sub(_ones, line)


def _ones(found: re.Match[str]) -> str:
    return "1" * len(found[0])


def _child(unit: TextUnit, start: int, stop: int) -> TextUnit | None:
    index = bisect_right(unit.children, start, key=lambda child: child.start) - 1
    if index < 0:
        return None
    child = unit.children[index]
    return child if child.holds(start, stop) else None


def _all_in(unit: TextUnit) -> Iterator[TextUnit]:
    yield unit
    for child in unit.children:
        yield from _all_in(child)
