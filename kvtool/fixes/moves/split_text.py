"""A text in two: the units that move, and what stays of it as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kvtool.diagnose.slots import Slot, content_part, is_found_again
from kvtool.fixes.moves.movable_unit import Movable, merged, movable_unit
from kvtool.fixes.moves.move_target import MoveTarget, places_at, value_in
from kvtool.fixes.moves.moved_blocks import grown_block, places_of_sections
from kvtool.fixes.moves.repeated_value import stands_in_many
from kvtool.fixes.turn_texts import role_of_part
from kvtool.text.reordered import rearranged
from kvtool.text.structure.masking import Span
from kvtool.text.structure.sentences import goes_on, introduces
from kvtool.text.structure.structure import structure_of
from kvtool.text.structure.text_unit import SEALED
from kvtool.text.traced import Traced, line_around, marks_of

_ORDERED = SEALED | {"numbered"}
"""Units that lines cannot be taken out of."""
_LEADS_ON = re.compile(r"[ \t]*(?:[-*+•>|]|\d{1,9}[.)]|```|~~~|</?[\w.:-]+[^<>\n]*>[ \t\r]*\Z)|[ \t]{2}")
"""A line that Markdown may go on with in the next one: of a list, a quote, a table, a fence."""


class MovedUnit(NamedTuple):
    """Characters `[start, stop)` that move; a blank line belongs before those that stood `apart`."""

    start: int
    stop: int
    apart: bool


@dataclass(frozen=True, slots=True)
class Parted:
    """What stays of a text, in order, and what moves."""

    kept: list[Span]
    units: list[MovedUnit]


def parted(text: str, targets: Sequence[MoveTarget], role: str, end: int) -> Parted:
    """A text up to `end` without what the targets name, and that."""
    movables = [
        unit
        for target in targets
        if _may_hold(text, target)
        for unit in target.held.of(text, role, partial(units_held, text, target, role))
    ]
    return parted_at(str.__str__(text), movables, end)


def _may_hold(text: str, target: MoveTarget) -> bool:
    """Whether a text may have a value of the target at all: one on a line of a logged message stands in that message alone."""
    slot = target.slot
    if target.sections or not slot.logged or slot.words is not None:
        return True
    origins = (origin for _, origin, _ in marks_of(text) if origin is not None)
    return any(origin.part == slot.part and content_part(origin) == slot.content_part for origin in origins)


def parted_at(text: str, movables: Sequence[Movable], end: int) -> Parted:
    """A text up to `end` without these units, and those."""
    kept: list[Span] = []
    units: list[MovedUnit] = []
    at = 0
    for unit in merged([Movable(low, min(high, end), kind) for low, high, kind in movables if low < end]):
        start, stop = _stripped(text, unit.start, unit.stop)
        if start == stop:
            continue
        low, high = _with_its_gap(text, start, stop, end)
        kept.append((at, max(low, at)))
        units.append(MovedUnit(start, stop, _stands_apart(text, start, stop, end, unit.is_block)))
        at = max(high, at)
    return Parted([*kept, (at, end)], units)


def units_last(text: Traced, found: Parted, end: int) -> Traced:
    """The text with its units behind what stays, before its last line ends, which begin at `end`."""
    plain = str.__str__(text)
    newline = "\r\n" if plain.startswith("\r\n", end) or (end == len(plain) and "\r\n" in plain) else "\n"
    parts: list[Span | str] = list(found.kept)
    left = _last_line(plain, found.kept)
    first = found.units[0]
    if left.strip():
        wide = first.apart or leads_on(left, plain[first.start : first.stop])
        parts = [*_without_line_ends(plain, found.kept), newline * (2 if wide else 1)]
    apart = False
    for number, unit in enumerate(found.units):
        if number:
            parts.append(newline * (2 if apart or unit.apart else 1))
        parts.append((unit.start, unit.stop))
        apart = unit.apart
    return rearranged(text, [*parts, (end, len(text))])


def _without_line_ends(text: str, kept: Sequence[Span]) -> list[Span]:
    """What stays, the line ends at the end of it left out."""
    left = list(kept)
    while left:
        start, stop = left.pop()
        stop = start + len(text[start:stop].rstrip("\r\n"))
        if start < stop:
            return [*left, (start, stop)]
    return left


def _last_line(text: str, kept: Sequence[Span]) -> str:
    """The last line of what stays that is not blank, with the line ends behind it."""
    pieces: list[str] = []
    for start, stop in reversed(kept):
        pieces.append(text[start:stop])
        if "\n" in text[start:stop].strip():
            break
    return "".join(reversed(pieces))


def leads_on(text: str, unit: str) -> bool:
    """Whether the last line of a text would take a unit on the next line for a part of what it belongs to."""
    shown = str.__str__(text).rstrip("\r\n")
    line = shown[shown.rfind("\n") + 1 :]
    return _LEADS_ON.match(line) is not None or introduces(line) or goes_on(line, str.__str__(unit).split("\n", 1)[0])


def units_held(text: str, target: MoveTarget, role: str) -> Iterator[Movable | str]:
    """The units of a text that hold the target's values; of those that cannot move, why."""
    plain = str.__str__(text)
    if target.sections:
        if not role or role == role_of_part(target.slot.part):
            yield from _optional(plain, target)
        return
    places = [
        (value_in(text, *place, target) if _is_line(target.slot) else place, place)
        for place in places_at(text if isinstance(text, Traced) else Traced(text), target)
    ]
    if not places:
        return
    places = [(_inner(plain, *value), place) for value, place in places]
    values = sorted(value for value, place in places if value != _inner(plain, *place) or not _is_line(target.slot))
    for (start, stop), _ in places:
        known = (start, stop) in values
        reason = stands_in_many(plain, start, stop) if known else None
        unit = reason or movable_unit(plain, start, stop, values, known=known, common=target.common)
        if isinstance(unit, Movable) and target.steady is not None and not unit.is_block:
            unit = _grown(plain, unit, target.steady)
        yield unit


def _optional(text: str, target: MoveTarget) -> Iterator[Movable | str]:
    """The sections of a target; of what can only stand whole, all of it."""
    places = list(places_of_sections(text, target.sections))
    shown = [_inner(text, *_stripped(text, *place)) for place in places]
    structure = structure_of(text)
    for place, (start, stop) in zip(places, shown, strict=True):
        held = structure.blocks_around(start, stop)
        torn = any(unit.kind in _ORDERED and not (start <= unit.start and unit.stop <= stop) for unit in held)
        yield movable_unit(text, start, stop, shown, common=target.common) if torn else Movable(*place, "section")


def _inner(text: str, start: int, stop: int) -> Span:
    """A range without the white space around it."""
    shown = text[start:stop]
    low = start + len(shown) - len(shown.lstrip())
    return (low, max(low, start + len(shown.rstrip()))) if shown.strip() else (start, stop)


def _is_line(slot: Slot) -> bool:
    """Whether the slot is a line of which it is not known where on it the value stands."""
    return not is_found_again(slot) if slot.logged else slot.variable is None


def _grown(text: str, unit: Movable, steady: frozenset[str]) -> Movable:
    """A line of paths with those around it, and with the unit that they make."""
    low, high = line_around(text, unit.start)[0], line_around(text, max(unit.stop - 1, unit.start))[1]
    if text[low : unit.start].strip() or text[unit.stop : high].strip():
        return unit
    start, stop = _stripped(text, *grown_block(text, low, high, steady))
    if start >= unit.start and stop <= unit.stop:
        return unit
    whole = movable_unit(text, start, stop, [(start, stop)])
    return whole if isinstance(whole, Movable) and whole.is_block else Movable(start, stop, "rows")


def _stripped(text: str, start: int, stop: int) -> Span:
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    while start < stop and text[start] in "\r\n":
        start += 1
    return start, stop


def _stands_apart(text: str, start: int, stop: int, end: int, block: bool) -> bool:
    """Whether blank lines are around a unit, or the ends of the text; of one that is all of a text, whether it is a block."""
    before, behind = text[:start].rstrip(" \t"), text[stop:end].lstrip(" \t\r")
    if not before.strip() and not behind.strip():
        return block
    first = not before.strip() or before.endswith(("\n\n", "\n\r\n"))
    return first and (not behind.strip() or behind.startswith(("\n\n", "\n\r\n")))


def _with_its_gap(text: str, start: int, stop: int, end: int) -> Span:
    """A unit with the white space that goes with it, so that what is left has no gap of its own."""
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip():  # a part of a line
        high = stop
        while high < end and text[high] in " \t\u3000":
            high += 1
        if high < end and text[high] not in "\r\n":
            return start, high
        while start > line and text[start - 1] in " \t":
            start -= 1
        return start, stop
    high = stop
    while high < end and text[high] in " \t\r":
        high += 1
    if high < end and text[high] != "\n":  # others follow on its line
        while high < end and text[high] in " \t\u3000":
            high += 1
        return start, high
    high = min(high + 1, end)
    if text[high:end].strip():
        if not text[:line].strip() or text[:line].endswith(("\n\n", "\n\r\n")):
            blank = _BLANK.match(text, high, end)
            high = blank.end() if blank else high
        return line, high
    while text[:line].strip() and text[line - 1] in "\r\n":
        line -= 1
    return line, end


_BLANK = re.compile(r"(?:[ \t\r]*\n)*")
