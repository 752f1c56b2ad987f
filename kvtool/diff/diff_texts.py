"""Two texts compared by lines, and the lines that differ by characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.text.align import EqualRun, align
from kvtool.text.structure.sentences import sentence_ends
from kvtool.text.traced import Traced

Range = tuple[int, int]
_WORD_END = frozenset({ord(" "), ord("\n")})
_LONG_LINE = 240
"""Characters from which on a sentence is moved instead of its line."""
Unit = Literal["line", "sentence", "words", "block"]
Ends = Callable[[str, int, int, Range], list[int]]
"""Returns the ends of units in a part of a text; none is inside the range."""
_NEAR = 32
"""Characters in which the end of the word before is looked for first."""
_WORDS_END = re.compile(r"[ \t]+|\n")


class Region(NamedTuple):
    """The same stretch in both texts, as ranges of characters; one of them may be empty."""

    a: Range
    b: Range


class DiffTexts:
    """Two different texts and the regions of whole lines in which they differ. Lines end at line feeds only."""

    def __init__(self, a: Traced, b: Traced) -> None:
        self.a = a
        self.b = b
        self.plain = str.__str__(a), str.__str__(b)
        """Both texts alone, made once: they may be asked for at each difference."""
        self._chunks: dict[Region, list[Region]] = {}
        lines_a, lines_b = _lines(a), _lines(b)
        names: dict[str, int] = {}
        keys_a, keys_b = (
            _array([names.setdefault(line, len(names)) for line in lines]) for lines in (lines_a, lines_b)
        )
        starts_a, starts_b = ([0, *accumulate(map(len, lines))] for lines in (lines_a, lines_b))
        self.regions = [
            Region((starts_a[a0], starts_a[a1]), (starts_b[b0], starts_b[b1]))
            for (a0, a1), (b0, b1) in _gaps(align(keys_a, keys_b, min_run=1), len(lines_a), len(lines_b))
        ]

    def chunks(self, region: Region) -> list[Region]:
        """Return the characters that differ in a region, in order; a few equal ones between two of them count as differing."""
        if (known := self._chunks.get(region)) is None:
            known = self._chunks[region] = self._differing(region)
        return known

    def _differing(self, region: Region) -> list[Region]:
        (start_a, stop_a), (start_b, stop_b) = region
        if start_a == stop_a or start_b == stop_b:
            return [region]
        codes_a, codes_b = _codes(self.a[start_a:stop_a]), _codes(self.b[start_b:stop_b])
        if len(codes_a) == len(codes_b) and 2 * np.count_nonzero(codes_a != codes_b) <= len(codes_a):
            runs = _position_wise(codes_a, codes_b)
        else:
            runs = align(codes_a, codes_b, newline=_WORD_END)
        return [
            Region((start_a + a0, start_a + a1), (start_b + b0, start_b + b1))
            for (a0, a1), (b0, b1) in _gaps(runs, len(codes_a), len(codes_b))
        ]

    def by_line(self, region: Region) -> list[Region]:
        """Return the lines of a region that differ, each with the one opposite; the region itself where their numbers differ."""
        lines_a, lines_b = _lines(self.a[slice(*region.a)]), _lines(self.b[slice(*region.b)])
        if len(lines_a) != len(lines_b):
            return [region]
        starts_a, starts_b = (
            list(accumulate(map(len, lines), initial=start))
            for lines, start in ((lines_a, region.a[0]), (lines_b, region.b[0]))
        )
        return [
            Region((starts_a[at], starts_a[at + 1]), (starts_b[at], starts_b[at + 1]))
            for at, (one, other) in enumerate(zip(lines_a, lines_b, strict=True))
            if one != other
        ]

    def lines_of(self, region: Region) -> Region:
        """Return the first line of a region in either text."""
        return Region(_first_line(self.a, region.a), _first_line(self.b, region.b))


def excerpts(texts: DiffTexts, region: Region) -> tuple[tuple[str | None, list[Range]], tuple[str | None, list[Range]]]:
    """Return the first line of a region in either text (None where it has none) and the ranges in it that differ.

    Line ends are shown only where they differ.
    """
    lines = texts.lines_of(region)
    chunks = texts.chunks(region)
    text_a, text_b = texts.a[slice(*lines.a)], texts.b[slice(*lines.b)]
    end_a, end_b = _line_end(text_a), _line_end(text_b)
    if end_a == end_b or not text_a or not text_b:
        text_a, text_b = text_a[: len(text_a) - len(end_a)], text_b[: len(text_b) - len(end_b)]
    found_a = _within([chunk.a for chunk in chunks], lines.a[0], len(text_a))
    found_b = _within([chunk.b for chunk in chunks], lines.b[0], len(text_b))
    missing_a, missing_b = region.a[0] == region.a[1], region.b[0] == region.b[1]
    return (None if missing_a else str.__str__(text_a), found_a), (None if missing_b else str.__str__(text_b), found_b)


def moved_ranges(texts: DiffTexts) -> tuple[Unit, list[Region], list[Region]]:
    """Return the text to move to the end: the unit, the stretch of the first difference, and those of all differences.

    Whole lines; of a line too long to be one thing, the sentence; of a sentence too long for that, the words.
    """
    unit, first = _units(texts, texts.regions[0])
    every = [first, *(_units(texts, region)[1] for region in texts.regions[1:])]
    return unit, first[:1], _merged([stretch for found in every for stretch in found])


def _units(texts: DiffTexts, region: Region) -> tuple[Unit, list[Region]]:
    """Return the stretches to move for one region: the region itself, or the sentences or words that differ in one long line."""
    one_line = "\n" not in texts.a[region.a[0] : max(region.a[1] - 1, 0)]
    if not one_line or _longest([region]) <= _LONG_LINE or region.a[0] == region.a[1] or region.b[0] == region.b[1]:
        return "line", [region]
    units: list[tuple[Unit, Ends]] = [("sentence", _sentence_ends), ("words", _word_ends)]
    for unit, ends in units:
        found = [
            Region(_around(texts.a, chunk.a, region.a, ends), _around(texts.b, chunk.b, region.b, ends))
            for chunk in texts.chunks(region)
        ]
        if _longest(found) <= _LONG_LINE:
            return unit, _merged(found)
    return "line", [region]


def _longest(regions: list[Region]) -> int:
    return max(stop - start for region in regions for start, stop in region)


def _merged(regions: list[Region]) -> list[Region]:
    """Regions that touch or overlap in either text made one, so that ranges stay in order."""
    result: list[Region] = []
    for region in regions:
        if result and (region.a[0] < result[-1].a[1] or region.b[0] < result[-1].b[1]):
            last = result.pop()
            region = Region((last.a[0], max(last.a[1], region.a[1])), (last.b[0], max(last.b[1], region.b[1])))
        result.append(region)
    return result


def _around(text: str, inside: Range, bounds: Range, ends: Ends) -> Range:
    """Return the part of `text` around a range, within `bounds`, from one end of a unit to another."""
    low, high = max(bounds[0], inside[0] - 2 * _LONG_LINE), min(bounds[1], inside[1] + 2 * _LONG_LINE)
    found = ends(str.__str__(text), low, high, inside)
    start = max((end for end in found if end <= inside[0]), default=low)
    return start, min((end for end in found if end >= inside[1]), default=high)


def _sentence_ends(text: str, low: int, high: int, inside: Range) -> list[int]:
    return sentence_ends(text, low, high, [inside])


def _word_ends(text: str, low: int, high: int, inside: Range) -> list[int]:
    """Return the nearest on either side."""
    ends: list[int] = []
    near, start = _NEAR, inside[0]
    while not ends and start > low:
        start = max(low, inside[0] - near)
        ends = [found.end() for found in _WORDS_END.finditer(text, start, inside[0])][-1:]
        near *= 2
    behind = _WORDS_END.search(text, inside[1], high)
    return ends if behind is None else [*ends, behind.end()]


def _gaps(runs: list[EqualRun], length_a: int, length_b: int) -> list[tuple[Range, Range]]:
    """Return the ranges between equal runs."""
    found: list[tuple[Range, Range]] = []
    at_a = at_b = 0
    for start_a, start_b, length in [*runs, EqualRun(length_a, length_b, 0)]:
        if at_a < start_a or at_b < start_b:
            found.append(((at_a, start_a), (at_b, start_b)))
        at_a, at_b = start_a + length, start_b + length
    return found


def _position_wise(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> list[EqualRun]:
    """Equal runs of two arrays of the same length that differ in place, as two timestamps do."""
    equal = np.concatenate(([False], a == b, [False]))
    edges = np.flatnonzero(equal[1:] != equal[:-1]).reshape(-1, 2).tolist()
    return [EqualRun(start, start, stop - start) for start, stop in edges]


def _within(ranges: list[Range], start: int, length: int) -> list[Range]:
    """Ranges of the text as ranges of the line that begins at `start`."""
    clipped = [(max(left - start, 0), min(right - start, length)) for left, right in ranges]
    return [(left, right) for left, right in clipped if left <= right]


def _lines(text: str) -> list[str]:
    pieces = str.split(text, "\n")
    return [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _first_line(text: str, region: Range) -> Range:
    start, stop = region
    end = text.find("\n", start, stop)
    return start, stop if end < 0 else end + 1


def _line_end(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""


def _codes(text: str) -> npt.NDArray[np.int32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.int32)


def _array(keys: list[int]) -> npt.NDArray[np.int32]:
    return np.array(keys, dtype=np.int32)
