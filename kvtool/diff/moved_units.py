"""Units of two texts that a trial moves: those around differences, if advice would move them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from kvtool.diff.diff_texts import DiffTexts, Range, Region, Unit, moved_ranges
from kvtool.fixes.moves.movable_unit import ALL_OF_IT, Movable, movable_unit
from kvtool.fixes.moves.question_text import cue_begin
from kvtool.fixes.moves.split_text import parted_at, units_last
from kvtool.text.traced import Traced


class MovedPair(NamedTuple):
    """The units that move in either text for one difference; none where a text has nothing there."""

    a: tuple[Movable, ...]
    b: tuple[Movable, ...]


class MovedUnits(NamedTuple):
    """The units of the first difference that can move, and of all; `unit` says what the first one is."""

    unit: Unit
    first: list[MovedPair]
    every: list[MovedPair]


def moved_units(texts: DiffTexts) -> MovedUnits:
    """Return the units of two texts that move: none is cut, and no rule leaves the rules."""
    unit, first, every = moved_ranges(texts)
    chunks = [chunk for region in texts.regions for chunk in texts.chunks(region)]
    values = tuple(sorted({chunk.a for chunk in chunks})), tuple(sorted({chunk.b for chunk in chunks}))
    moved = [pair for region in every for pair in _pairs(texts, region, chunks, values, unit)]
    if not moved:
        return MovedUnits(unit, [], [])
    at_first = [moved[0]] if _touches(moved[0], first[0]) else []
    return MovedUnits(_unit_of(texts, moved[0], unit), at_first, _apart(moved))


def moved_last(text: str, movables: Sequence[Movable]) -> str:
    """Return the text with these units behind all else but its last line ends, and a line that leads over to the answer."""
    end = cue_begin(text)
    found = parted_at(str.__str__(text), movables, end)
    return str.__str__(units_last(Traced(text), found, end)) if found.units else text


def taken_out(text: str, movables: Sequence[Movable]) -> tuple[str, list[str]]:
    """Return the text without these units, and those."""
    plain = str.__str__(text)
    found = parted_at(plain, movables, len(plain))
    return "".join(plain[low:high] for low, high in found.kept), [plain[one.start : one.stop] for one in found.units]


def _pairs(
    texts: DiffTexts,
    region: Region,
    chunks: Sequence[Region],
    values: tuple[Sequence[Range], Sequence[Range]],
    unit: Unit,
) -> list[MovedPair]:
    """Return the units around what differs in a region: line by line where both texts have as many, else of all of it."""
    parts = texts.by_line(region) if unit == "line" else [region]
    pairs: list[MovedPair] = []
    for part in parts:
        first = bisect_left(chunks, part.a[0], key=_begin)
        near = chunks[first : bisect_right(chunks, part.a[1], lo=first, key=_begin)]
        inside = [chunk for chunk in near if part.b[0] <= chunk.b[0] <= part.b[1]]
        a = _side(texts.plain[0], part.a, [chunk.a for chunk in inside], values[0])
        b = _side(texts.plain[1], part.b, [chunk.b for chunk in inside], values[1])
        if a is not None and b is not None and (a or b):
            pairs.append(MovedPair(a, b))
    return pairs


def _begin(region: Region) -> int:
    return region.a[0]


def _side(plain: str, part: Range, inside: Sequence[Range], values: Sequence[Range]) -> tuple[Movable, ...] | None:
    """Return the unit of one text, none where it has nothing there; None where advice would move nothing."""
    start, stop = _shown(plain, *part)
    if start >= stop:
        return ()
    varying = [(low, high) for low, high in inside if low < high]
    low, high = (
        _shown(plain, min(one[0] for one in varying), max(one[1] for one in varying)) if varying else (start, stop)
    )
    known = low < high and (start, stop) != (low, high)
    low, high = (max(low, start), min(high, stop)) if known else (start, stop)
    others = values
    if not known:
        others = [
            *values[: bisect_left(values, low, key=itemgetter(0))],
            *values[bisect_left(values, high, key=itemgetter(0)) :],
        ]
    found = movable_unit(plain, low, high, others, known=known)
    whole = isinstance(found, Movable) and not plain[: found.start].strip() and not plain[found.stop :].strip()
    if isinstance(found, Movable) and not whole:
        return (found,)
    if whole or (found == ALL_OF_IT and "\n" in plain[start:stop]):
        return (Movable(start, stop, "statement"),)  # a part of a long line, or several units: as they are
    return None


def _shown(text: str, start: int, stop: int) -> Range:
    """Return a range without the white space around it."""
    shown = text[start:stop]
    low = start + len(shown) - len(shown.lstrip())
    return (low, start + len(shown.rstrip())) if shown.strip() else (start, start)


def _touches(pair: MovedPair, region: Region) -> bool:
    """Return whether it is for a difference that the region has."""
    return any(
        one.start <= bounds[1] and bounds[0] <= one.stop
        for units, bounds in ((pair.a, region.a), (pair.b, region.b))
        for one in units
    )


def _apart(pairs: Sequence[MovedPair]) -> list[MovedPair]:
    """Return the pairs, those of one unit once."""
    return list(dict.fromkeys(pairs))


def _unit_of(texts: DiffTexts, pair: MovedPair, unit: Unit) -> Unit:
    """Return the kind of the first unit that moves: a block of lines, a line, or a part of one."""
    one, plain = (pair.a[0], texts.plain[0]) if pair.a else (pair.b[0], texts.plain[1])
    if "\n" in plain[one.start : one.stop]:
        return "block"
    line = plain[plain.rfind("\n", 0, one.start) + 1 : one.start]
    behind = plain[one.stop : (plain.find("\n", one.stop) + 1 or len(plain) + 1) - 1]
    return "line" if not line.strip() and not behind.strip() else "sentence" if unit == "line" else unit
