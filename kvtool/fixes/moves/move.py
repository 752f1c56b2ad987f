"""Move what varies after the shared text (tier P2): whole units, so that nothing is torn apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvtool.diagnose.slots import Slot
from kvtool.fixes.moves.inserted_content import begin_of_introduced, inserted_begin
from kvtool.fixes.moves.jinja_places import has_blocks, last_place_outside, without_line_ends
from kvtool.fixes.moves.movable_unit import Movable
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.fixes.moves.question_text import cue_begin
from kvtool.fixes.moves.split_text import contained_units, leads_on, parted, units_last
from kvtool.fixes.turn_texts import role_of_part, texts_of
from kvtool.text.message import Message, role_of
from kvtool.text.reordered import rearranged
from kvtool.text.structure.text_unit import UnitKind
from kvtool.text.traced import Traced, concat, line_around
from kvtool.workload.turn import Turn

BEFORE_CONTENT = "the end of its instructions"
"""The destination of what inserted content follows."""
_LOOKED_AT = 8
_WORDS = re.compile(r"[^\W\d_]{2}")

_NOUNS: dict[UnitKind, str] = {
    "statement": "line",
    "item": "line",
    "paragraph": "paragraph",
    "section": "section",
    "element": "element",
    "introduced": "block with its introduction",
    "list": "list",
    "numbered": "list",
    "table": "table",
    "fence": "code block",
    "data": "data",
    "quote": "quote",
}
_SAID_THERE = ("user", "tool")
_STAYS_THERE = (*_SAID_THERE, "assistant")


class _Moved(NamedTuple):
    """A unit that was taken out of a text; `apart` ones have a blank line before them."""

    text: Traced
    apart: bool


def move_targets(turn: Turn, targets: Sequence[MoveTarget], *, within: bool = False) -> Turn:
    """Return the turn with what the targets name at the end of its last message; the very turn where that changes nothing.

    What a user, a tool or the model said stays in the message in which it was said, and goes to the end of that. `within` does so
    with everything: nothing changes its role. Nothing moves past content that a template inserts: the end is before it.
    """
    if turn.text is not None:
        end = _movable_end(turn.text, targets, "")
        found = parted(turn.text, targets, "", end)
        if not found.units:
            return turn
        text = units_last(turn.text, found, end)
        return turn if _same(turn.text, text, targets) else turn.with_text(text)
    messages = [dict(message) for message in turn.messages or ()]
    last = next((each for each in reversed(messages) if role_of(each) in _SAID_THERE), messages[-1] if messages else {})
    lines: list[_Moved] = []
    for message in messages:
        said = _last_text(message) or ""
        end = _movable_end(said, targets, role_of(message))
        # Outside of its message it would come after content that the template inserts there.
        stays = within or role_of(message) in _STAYS_THERE or end < cue_begin(said)
        tail = _take_end(message, end) if stays or message is last else Traced("")
        moved = _take_from_message(message, targets)
        if moved and stays:
            _append(message, moved, tail)
        elif moved:
            lines += moved
        if lines and message is last:
            _append(message, lines, tail)
            moved, lines = lines, []
        _append_text(message, tail, apart=bool(moved))
    if lines:  # of messages behind that
        tail = _take_end(last, _movable_end(_last_text(last) or "", targets, role_of(last)))
        _append(last, lines, tail)
        _append_text(last, tail, apart=True)
    for index, (was, now) in enumerate(zip(turn.messages or (), messages, strict=True)):
        before, after = was.get("content"), now.get("content")
        if isinstance(before, str) and isinstance(after, str) and _same(before, after, targets):
            messages[index] = was
    return turn if messages == (turn.messages or []) else turn.with_messages(messages)


def stops_at_content(turns: Sequence[Turn], targets: Sequence[MoveTarget]) -> bool:
    """Return whether inserted content follows what moves, in its own text."""
    return any(
        parted(at.text, targets, at.role, end).units
        for turn in turns
        for at in texts_of(turn)
        if (end := _movable_end(at.text, targets, at.role)) < cue_begin(at.text)
    )


def _same(before: str, after: str, targets: Sequence[MoveTarget]) -> bool:
    """Return whether nothing was moved: a section that is at the end already stays there, with the blank lines before it."""
    if before == after or not any(target.sections for target in targets):
        return before == after
    said = [[line for line in str.__str__(text).split("\n") if line.strip()] for text in (before, after)]
    return said[0] == said[1]


def destination(slot: Slot, *, within: bool = False) -> str:
    """Return in words where `move_targets` brings the slot's line."""
    if within or slot.part.endswith(tuple(f"({role})" for role in _STAYS_THERE)):
        return "the end of the message"
    in_message = bool(role_of_part(slot.part)) or slot.part.endswith(")")
    return "the end of the last message" if in_message else "the end of the prompt"


def _take_from_message(message: Message, targets: Sequence[MoveTarget]) -> list[_Moved]:
    content = message.get("content")
    if isinstance(content, str):
        message["content"], moved = _take(content, targets, role_of(message))
        return moved
    moved = []
    if isinstance(content, list):
        parts = [dict(part) if isinstance(part, dict) else part for part in content]
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                part["text"], taken = _take(part["text"], targets, role_of(message))
                moved += taken
        message["content"] = parts
    return moved


def _append(message: Message, units: list[_Moved], tail: str) -> None:
    """Put units after the text of a message, before the line ends of `tail`."""
    text = Traced(_last_text(message) or "")
    if units and not (has_blocks(text) or has_blocks(tail)):  # else the place is chosen among those of the template
        text = text[: without_line_ends(text)]
    end = "\r\n" if tail.startswith("\r\n") else "\n"
    pieces: list[str] = [text] if text else []
    apart = False
    for number, unit in enumerate(units):
        ended = not number and text.endswith("\n")  # after a Jinja block
        wide = apart or unit.apart or ended or (not number and leads_on(text, unit.text))
        if pieces:
            pieces.append(end * ((2 if wide else 1) - ended))
        pieces.append(unit.text)
        apart = unit.apart
    _set_last_text(message, concat(pieces))


def _append_text(message: Message, text: str, *, apart: bool) -> None:
    """Put a text after that of a message, on a line of its own where it is `apart`."""
    if text:
        before = _last_text(message) or ""
        gap = "\n\n" if apart and before and not text.startswith(("\r", "\n")) else ""
        _set_last_text(message, concat([before, gap, text]))


def _take_end(message: Message, end: int) -> Traced:
    """Take the end of a message after which nothing may come: its line ends, a line that leads over to the answer, and content
    that the template inserts."""
    text = _last_text(message)
    if text is None or end == len(text):
        return Traced("")
    traced = text if isinstance(text, Traced) else Traced(text)
    _set_last_text(message, traced[:end])
    return traced[end:]


def _movable_end(text: str, targets: Sequence[MoveTarget], role: str) -> int:
    """Return where units may go to: before the first inserted content that they are before, else before the last line ends."""
    end = cue_begin(text)
    moving = [(unit.start, unit.stop) for unit in parted(text, targets, role, end).units]
    begin = inserted_begin(text, moving[0][0] if moving else 0, moving)
    end = end if begin is None else min(end, begin)
    return _end_outside_blocks(text, end) if has_blocks(text) else end


def _end_outside_blocks(text: str, end: int) -> int:
    """Return the last place before an end at which no Jinja block is open, and before the line that introduces such a block."""
    plain = str.__str__(text)
    line_ends = len(plain[end:]) - len(plain[end:].lstrip("\r\n"))
    place = last_place_outside(text, end + line_ends)
    if place < end and (label := begin_of_introduced(plain, place)) is not None:
        place = last_place_outside(text, label)
    shortened = without_line_ends(text, place)
    return shortened if last_place_outside(text, shortened) == shortened else place


def _last_text(message: Message) -> str | None:
    """Return the text that lines are put after; None where a new part is needed for them."""
    content = message.get("content")
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    last = content[-1] if content else None
    text = last.get("text") if isinstance(last, dict) else None
    return text if isinstance(text, str) else None


def _set_last_text(message: Message, text: str) -> None:
    content = message.get("content")
    if not isinstance(content, list):
        message["content"] = text
    elif _last_text(message) is None:
        message["content"] = [*content, {"type": "text", "text": text}]
    else:
        message["content"] = [*content[:-1], {**content[-1], "text": text}]


def _take(text: str, targets: Sequence[MoveTarget], role: str) -> tuple[Traced, list[_Moved]]:
    """Return the text without what the targets name, and that."""
    traced = text if isinstance(text, Traced) else Traced(text)
    found = parted(traced, targets, role, len(traced))
    if not found.units:
        return traced, []
    return rearranged(traced, found.kept), [_Moved(traced[unit.start : unit.stop], unit.apart) for unit in found.units]


def moved_noun(target: MoveTarget, samples: Sequence[Turn]) -> tuple[str, str | None]:
    """Return what moves with the values, in words, as the first sample tells it that has any; and why a unit of the first few
    cannot.
    """
    noun = refusal = None
    for number, turn in enumerate(samples):
        if noun is not None and (refusal is not None or number >= _LOOKED_AT):
            break
        for at in texts_of(turn):
            for unit in contained_units(at.text, target, at.role):
                if isinstance(unit, Movable):
                    noun = noun or _noun(str.__str__(at.text), unit)
                elif number < _LOOKED_AT:
                    refusal = refusal or unit
    return noun or "line", refusal


def _noun(text: str, unit: Movable) -> str:
    """Return what a unit is called: a sentence, where it is a part of its line."""
    if unit.kind == "statement":
        start, stop = line_around(text, unit.start)[0], line_around(text, max(unit.stop - 1, unit.start))[1]
        if _WORDS.search(text, start, unit.start) or _WORDS.search(text, unit.stop, stop):
            return "sentence"
    return _NOUNS.get(unit.kind, "block")
