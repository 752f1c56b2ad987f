"""A text in two: the units that move, and what stays of it as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from kvtool.diagnose.slots import Slot, content_part, is_found_again
from kvtool.diagnose.values.classify import DETECTORS
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.moves.jinja_places import has_blocks, with_open_blocks, without_line_ends
from kvtool.fixes.moves.movable_unit import IN_MANY, Movable, merged, movable_unit
from kvtool.fixes.moves.move_target import BLOCK_CODES, MoveTarget, places_at, value_in
from kvtool.fixes.moves.optional_lines import is_torn
from kvtool.fixes.turn_texts import edited, map_texts, role_of_part, texts_of, with_texts
from kvtool.text.reordered import rearranged
from kvtool.text.structure.framed_blocks import framed_blocks
from kvtool.text.structure.masking import Span
from kvtool.text.structure.prose import ROW
from kvtool.text.structure.sentences import goes_on, introduces
from kvtool.text.structure.structure import structure_of
from kvtool.text.traced import Traced, concat, line_around, marks_of
from kvtool.workload.turn import Turn

_LONGEST_BLOCK = 500
_HEADING = 80
_MOST_PLACES = 200
_LEAST = 3
_LONGEST = 200
_MOST = 10_000
_ENDS = ".,;:!?\u3002\uff01\uff1f"
_LETTER = re.compile(r"[^\W\d_]")
_LEADS_ON = re.compile(r"[ \t]*(?:[-*+•>|]|\d{1,9}[.)]|```|~~~|</?[\w.:-]+[^<>\n]*>[ \t\r]*\Z)|[ \t]{2}")
"""A line that Markdown may go on with in the next one: of a list, a quote, a table, a fence."""


class MovedUnit(NamedTuple):
    """Characters `[start, stop)` that move; a blank line belongs before those that stood `apart`."""

    start: int
    stop: int
    apart: bool


@dataclass(frozen=True, slots=True)
class SplitText:
    """A text in two: what stays, in order, and what moves."""

    kept: list[Span]
    units: list[MovedUnit]


def parted(text: str, targets: Sequence[MoveTarget], role: str, end: int) -> SplitText:
    """Return a text up to `end` without what the targets name, and that."""
    movables = [
        unit
        for target in targets
        if may_hold(text, target)
        for unit in target.held.of(text, role, partial(contained_units, text, target, role))
    ]
    found = parted_at(str.__str__(text), movables, end)
    return _with_blocks(text, found, end) if found.units and has_blocks(text) else found


def _with_blocks(text: str, found: SplitText, end: int) -> SplitText:
    """Return a text in two whose units have all of the Jinja blocks that wrote them, up to the line ends."""
    kept: list[Span] = []
    units: list[MovedUnit] = []
    for number, unit in enumerate(found.units):
        start, stop = with_open_blocks(text, unit.start, unit.stop)
        stop = min(stop, end)
        low, high = found.kept[number][1], found.kept[number + 1][0]
        low = min(max(low, without_line_ends(text, start)) if "\n" in text[low:start] else low, start)
        kept.append((kept.pop()[0] if kept else found.kept[number][0], low))
        kept.append((max(high, stop), max(found.kept[number + 1][1], high, stop)))
        units.append(unit._replace(start=start, stop=stop))
    apart = all(one.stop <= other.start for one, other in pairwise(units))
    return SplitText(kept, units) if apart and all(low <= high for low, high in kept) else found


def may_hold(text: str, target: MoveTarget) -> bool:
    """Return whether a text may have a value of the target at all: one on a line of a logged message is in that message
    alone.
    """
    slot = target.slot
    if target.sections or not slot.logged or slot.words is not None:
        return True
    origins = (origin for _, origin, _ in marks_of(text) if origin is not None)
    return any(origin.part == slot.part and content_part(origin) == slot.content_part for origin in origins)


def parted_at(text: str, movables: Sequence[Movable], end: int) -> SplitText:
    """Return a text up to `end` without these units, and those."""
    kept: list[Span] = []
    units: list[MovedUnit] = []
    at = 0
    for unit in merged([Movable(low, min(high, end), kind) for low, high, kind in movables if low < end]):
        start, stop = _stripped(text, unit.start, unit.stop)
        if start == stop:
            continue
        low, high = _with_its_gap(text, start, stop, end)
        kept.append((at, max(low, at)))
        units.append(MovedUnit(start, stop, _is_separate(text, start, stop, end, unit.is_block)))
        at = max(high, at)
    return SplitText([*kept, (at, end)], units)


def units_last(text: Traced, found: SplitText, end: int) -> Traced:
    """Return the text with its units after what stays, before its last line ends, which begin at `end`."""
    plain = str.__str__(text)
    newline = "\r\n" if plain.startswith("\r\n", end) or (end == len(plain) and "\r\n" in plain) else "\n"
    kept = rearranged(text, found.kept)
    left = _last_line(plain, found.kept)
    first = found.units[0]
    gap = 0
    if left.strip():
        kept = kept if has_blocks(text) else kept[: without_line_ends(kept)]
        ended = str.endswith(kept, "\n")  # after a Jinja block, whose last line differs from request to request
        wide = first.apart or ended or leads_on(left, plain[first.start : first.stop])
        gap = (2 if wide else 1) - ended
    parts: list[Span | str] = []
    apart = False
    for number, unit in enumerate(found.units):
        if number:
            parts.append(newline * (2 if apart or unit.apart else 1))
        parts.append((unit.start, unit.stop))
        apart = unit.apart
    if not plain.startswith(("\r", "\n"), end) and end < len(plain):
        parts.append(newline)
    return concat([kept, newline * gap, rearranged(text, [*parts, (end, len(text))])])


def with_target_at_end(turn: Turn, target: MoveTarget, *, ended: bool) -> Turn:
    """Return the turn with what the target names after all of its text, on a new line; the very turn where it is there already.

    The new characters are the same in all turns, so that one edit of a file can give them to all who read it. `ended`: only in
    texts that end with a newline, and with one.
    """

    def change(text: str, role: str) -> str:
        plain = str.__str__(text)
        found = parted(text, [target], role, len(plain))
        units = found.units
        if not units or not plain[units[-1].stop :].strip() or (ended and not plain.endswith("\n")):
            return text
        newline = "\r\n" if "\r\n" in plain else "\n"
        moved: list[Span | str] = []
        for unit in units:
            span = unit.start, unit.stop
            moved += [span, newline] if ended else [newline, span]
        return rearranged(text, [*found.kept, *moved])

    changed = {(at.message, at.part): (at.text, change(at.text, at.role)) for at in texts_of(turn)}
    return with_texts(turn, {place: after for place, (before, after) in changed.items() if after is not before})


def _last_line(text: str, kept: Sequence[Span]) -> str:
    """Return the last line of what stays that is not blank, with the line ends after it."""
    pieces: list[str] = []
    for start, stop in reversed(kept):
        pieces.append(text[start:stop])
        if "\n" in text[start:stop].strip():
            break
    return "".join(reversed(pieces))


def leads_on(text: str, unit: str) -> bool:
    """Return whether the last line of a text would take a unit on the next line for a part of what it belongs to."""
    shown = str.__str__(text).rstrip("\r\n")
    line = shown[shown.rfind("\n") + 1 :]
    return _LEADS_ON.match(line) is not None or introduces(line) or goes_on(line, str.__str__(unit).split("\n", 1)[0])


def contained_units(text: str, target: MoveTarget, role: str) -> Iterator[Movable | str]:
    """Yield the units of a text that hold the target's values; of those that cannot move, why."""
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
    values = tuple(
        sorted(value for value, place in places if value != _inner(plain, *place) or not _is_line(target.slot))
    )
    for (start, stop), _ in places:
        known = (start, stop) in values
        reason = is_in_many(plain, start, stop) if known else None
        unit = reason or movable_unit(plain, start, stop, values, known=known, common=target.common)
        if target.without is not None:
            unit = target.without.narrowed(plain, start, stop, unit)
        if isinstance(unit, Movable) and target.steady is not None and not unit.is_block:
            unit = _grown(plain, unit, target.steady)
        yield unit


def _optional(text: str, target: MoveTarget) -> Iterator[Movable | str]:
    """Yield the sections of a target; of what can only stand whole, all of it; and the blocks of which they are a part."""
    blocks = [block for block in framed_blocks(text) if block.head in target.heads] if target.heads else []
    yield from (Movable(block.start, block.stop, "section") for block in blocks)
    places = list(places_of_sections(text, target.sections))
    shown = [_inner(text, *_stripped(text, *place)) for place in places]
    structure = structure_of(text)
    for place, (start, stop) in zip(places, shown, strict=True):
        if any(block.start <= start and stop <= block.stop for block in blocks):
            continue
        torn = is_torn(structure.blocks_around(start, stop), start, stop)
        yield movable_unit(text, start, stop, shown, common=target.common) if torn else Movable(*place, "section")


def _inner(text: str, start: int, stop: int) -> Span:
    """Return a range without the white space around it."""
    shown = text[start:stop]
    low = start + len(shown) - len(shown.lstrip())
    return (low, max(low, start + len(shown.rstrip()))) if shown.strip() else (start, stop)


def _is_line(slot: Slot) -> bool:
    """Return whether the slot is a line of which it is not known where on it the value stands."""
    return not is_found_again(slot) if slot.logged else slot.variable is None


def _grown(text: str, unit: Movable, steady: frozenset[str]) -> Movable:
    """Return a line of paths with those around it, and with the unit that they make."""
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


def _is_separate(text: str, start: int, stop: int, end: int, block: bool) -> bool:
    """Return whether blank lines are around a unit, or the ends of the text; of one that is all of a text,
    whether it is a block.
    """
    before, behind = text[:start].rstrip(" \t"), text[stop:end].lstrip(" \t\r")
    if not before.strip() and not behind.strip():
        return block
    first = not before.strip() or before.endswith(("\n\n", "\n\r\n"))
    return first and (not behind.strip() or behind.startswith(("\n\n", "\n\r\n")))


def _with_its_gap(text: str, start: int, stop: int, end: int) -> Span:
    """Return a unit with the white space that goes with it, so that what is left has no gap of its own."""
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


def is_in_many(text: str, start: int, stop: int) -> str | None:
    """Return the reason why a value is not moved that is in many lines or sentences; None where it is in few."""
    value = _core(text[start:stop])
    if not _LEAST <= len(value) <= _LONGEST or "\n" in value or not (_LETTER.search(value) or len(value) > _LEAST):
        return None
    if text.count(value) < THRESHOLDS.many_places:
        return None
    last, count = -1, 0
    for low, _ in _places(text, value):
        line = text.find("\n", low)
        count += line != last
        last = line
    return IN_MANY if count >= THRESHOLDS.many_places else None


def _core(value: str) -> str:
    """Return a value without the sign that ends its sentence."""
    return value.strip().rstrip(_ENDS) or value.strip()


def _places(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield where a value stands that is no part of a longer word."""
    before = r"(?<![A-Za-z0-9_])" if value[0].isalnum() and value[0].isascii() else ""
    behind = r"(?![A-Za-z0-9_])" if value[-1].isalnum() and value[-1].isascii() else ""
    for number, found in enumerate(re.finditer(f"{before}{re.escape(value)}{behind}", text)):
        if number == _MOST:
            return
        yield found.span()


def cut_values(turn: Turn, target: MoveTarget) -> Turn:
    """Return the turn without the target's values, wherever they stand: what it would say if it named them at its end only."""

    def change(text: str) -> str:
        plain = str.__str__(text)
        traced = Traced(text)
        values = {_core(plain[slice(*value_in(traced, *place, target))]) for place in places_at(traced, target)}
        edits: list[tuple[int, int, str]] = []
        for place in sorted({place for value in values if value for place in _places(plain, value)}):
            if not edits or place[0] >= edits[-1][1]:
                edits.append((*place, ""))
        return edited(text, edits) if edits else text

    return map_texts(turn, change)


def places_of_sections(text: str, sections: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where the sections stand as whole lines; longer ones come first and keep what is theirs."""
    taken: list[tuple[int, int]] = []
    for section in sections:
        at = -1
        while (at := text.find(section, at + 1)) >= 0:
            stop = at + len(section)
            whole = (not at or text[at - 1] == "\n") and (stop == len(text) or text[stop] == "\n")
            if whole and all(stop <= low or high <= at for low, high in taken):
                taken.append((at, stop))
                yield _section_with_gap(text, at, stop)
                at = stop - 1
            if len(taken) >= _MOST_PLACES:
                return


def _section_with_gap(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return a section with what parts it from the rest, so that what is left is what requests without the section have."""
    if not text[stop:].strip("\n"):
        while start and text[start - 1] == "\n":
            start -= 1
        return start, len(text)
    stop += 1
    while (not start or text[max(start - 2, 0) : start] in ("\n", "\n\n")) and text[stop] == "\n":
        stop += 1
    return start, stop


def grown_block(text: str, low: int, high: int, steady: frozenset[str]) -> tuple[int, int]:
    """Return whole lines `[low, high)` and those around them that other requests do not have, blank lines between them included.

    What is no path, no commit and no row of a tree or a status varies for reasons of its own and is not of the block.
    """
    plain = str.__str__(text)
    if line_around(plain, low)[0] != low or (plain[high - 1 : high] != "\n" and high < len(plain)):
        return low, high  # a sentence of a long line
    best = high
    for _ in range(_LONGEST_BLOCK):
        end = line_around(plain, high)[1]
        line = plain[high:end].rstrip("\n")
        if end == high or (line.strip() and (line in steady or not _is_of_a_block(line))):
            break
        high = end
        best = high if line.strip() else best
    first = low
    for _ in range(_LONGEST_BLOCK):
        begin = plain.rfind("\n", 0, max(low - 1, 0)) + 1
        line = plain[begin : max(low - 1, 0)]
        if not low or (line.strip() and (line in steady or not _is_of_a_block(line))):
            break
        low = begin
        first = low if line.strip() else first
    return first, best


def _is_of_a_block(line: str) -> bool:
    head = line[:_HEADING]
    return ROW.match(head) is not None or any(
        kind.code in BLOCK_CODES and pattern.search(head) for kind, pattern in DETECTORS
    )
