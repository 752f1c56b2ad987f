"""Move what varies after the shared text (tier P2): whole units, so that nothing is torn apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvtool.diagnose.slots import Slot
from kvtool.fixes.moves.inserted_content import WrittenAt, begin_of_introduced, inserted_begin
from kvtool.fixes.moves.jinja_places import has_blocks, last_place_outside, without_line_ends
from kvtool.fixes.moves.movable_unit import Movable
from kvtool.fixes.moves.move_target import MoveTarget, has_value
from kvtool.fixes.moves.question_text import cue_begin
from kvtool.fixes.moves.split_text import contained_units, leads_on, may_hold, parted, units_last
from kvtool.fixes.turn_texts import TextAt, role_of_part, texts_of
from kvtool.text.cache_marks import is_marked, markable, marks_on
from kvtool.text.message import Message, role_of
from kvtool.text.reordered import rearranged
from kvtool.text.structure.text_unit import UnitKind
from kvtool.text.traced import Traced, concat, line_around
from kvtool.workload.turn import Turn

BEFORE_CONTENT = "the end of its instructions"
"""The destination of what inserted content follows."""
AFTER_MARK = "a block of its own after the cache breakpoint"
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


class MovedText(NamedTuple):
    """A unit that was taken out of a text; `apart` ones have a blank line before them."""

    text: Traced
    apart: bool


def move_targets(turn: Turn, targets: Sequence[MoveTarget], *, within: bool = False, own_message: bool = False) -> Turn:
    """Return the turn with what the targets name at the end of its last message; the very turn where that changes nothing.

    What a user, a tool or the model said stays in the message in which it was said, and goes to the end of that. `within` does so
    with everything: nothing changes its role. `own_message` makes a last message of instructions of them, in the role that they
    have. Nothing moves past content that a template inserts: the end is before it. Nothing goes into a block that a breakpoint
    ends: it becomes a block of its own after that and after its inserted content; the mark stays at the end of what is left.
    """
    if turn.text is not None:
        return _with_units_last(turn, turn.text, targets)
    holding = {at.message for at in texts_of(turn) if any(may_hold(at.text, target) for target in targets)}
    messages = [dict(message) for message in turn.messages or ()]
    said_last = [number for number, each in enumerate(messages) if role_of(each) in _SAID_THERE]
    asked = said_last[-1] if said_last else len(messages) - 1
    last = messages[asked] if messages else {}
    if own_message and role_of(last) not in _SAID_THERE:
        return turn
    lines: list[MovedText] = []
    lead = ""
    tools, more = turn.tools, None
    for number, message in enumerate(messages):
        if number not in holding and message is not last:
            continue
        said = _last_text(message) or ""
        end = _movable_end(said, targets, role_of(message), marked=_ends_marked(message))
        # Outside of its message it would come after content that the template inserts there.
        stays = within or role_of(message) in _STAYS_THERE or end < cue_begin(said) or (own_message and number > asked)
        tail = _take_end(message, end) if stays or message is last else Traced("")
        moved = _take_from_message(message, targets)
        orphans = _without_emptied(message) if moved else {}
        tools = tools if number else _with_orphans(tools, orphans)
        if not stays:
            lines += moved
            lead = lead or (role_of(message) if moved else "")
        elif moved:
            _append(message, moved, tail)
        if lines and message is last and not own_message:
            more = _append_to_last(message, lines, tail)
            moved, lines = lines, []
        _append_text(message, tail, apart=bool(moved))
    if lines and own_message:
        more = Message(role=lead, content="")
        _append(more, lines, Traced(""))
    elif lines:  # of messages behind that
        end = _movable_end(_last_text(last) or "", targets, role_of(last), marked=_ends_marked(last))
        tail = _take_end(last, end)
        _append(last, lines, tail)
        _append_text(last, tail, apart=True)
    for index, (was, now) in enumerate(zip(turn.messages or (), messages, strict=True)):
        before, after = was.get("content"), now.get("content")
        if isinstance(before, str) and isinstance(after, str) and _same(before, after, targets):
            messages[index] = was
    if more is not None:
        messages.insert(len(messages) if own_message else asked + 1, more)
    if messages == (turn.messages or []):
        return turn
    changed = turn.with_messages(messages)
    changed.tools = tools
    return changed


def _with_units_last(turn: Turn, prompt: Traced, targets: Sequence[MoveTarget]) -> Turn:
    """Return the turn of a prompt without messages."""
    end = _movable_end(prompt, targets, "")
    found = parted(prompt, targets, "", end)
    if not found.units:
        return turn
    text = units_last(prompt, found, end)
    return turn if _same(prompt, text, targets) else turn.with_text(text)


def last_asked(messages: Sequence[Message]) -> int | None:
    """Return the number of the last message of a user or a tool."""
    return next((at for at in reversed(range(len(messages))) if role_of(messages[at]) in _SAID_THERE), None)


def append_units(turn: Turn, units: list[MovedText], *, at: int | None = None, own_block: bool = False) -> Turn:
    """Return the turn with units at the end of its last message, or of message `at`; after a breakpoint as a block of their own.

    `own_block`: so also where a mark could be set before them, in a content of blocks whose API takes marks.
    """
    messages = [dict(message) for message in turn.messages or ()]
    at = last_asked(messages) if at is None else at
    if at is None:
        return turn
    last = messages[at]
    text = _last_text(last) or ""
    tail = _take_end(last, cue_begin(text))
    if own_block and units and isinstance(content := last.get("content"), list) and takes_marks(turn):
        last["content"] = [*content, {"type": "text", "text": ""}]
    more = _append_to_last(last, units, tail)
    _append_text(last, tail, apart=True)
    if more is not None:
        messages.insert(at + 1, more)
    return turn.with_messages(messages)


def takes_marks(turn: Turn) -> bool:
    """Return whether the API of a request takes cache breakpoints, as its form or its own marks show."""
    return turn.call.system_blocks or any(map(is_marked, markable(turn.tools, turn.messages)))


def _append_to_last(message: Message, units: list[MovedText], tail: str) -> Message | None:
    """Put units after the text of the last message; where a mark ends all that a tool gave, into a new message, which is
    returned.
    """
    if role_of(message) != "tool" or not is_marked(message):
        _append(message, units, tail)
        return None
    more = Message(role="user", content=[])
    _append(more, units, Traced(""))
    return more


def _with_orphans(tools: list[Any] | None, marks: dict[str, Any]) -> list[Any] | None:
    """Return the tools, the last of them with the marks of instructions of which nothing is left before them."""
    if not marks or not tools or not isinstance(tools[-1], dict):
        return tools
    return [*tools[:-1], {**tools[-1], **marks}]


def stops_at_content(turns: Sequence[Turn], target: MoveTarget) -> bool:
    """Return whether inserted content follows what moves, in its own text."""
    return any(end < last for end, last in _ends(turns, target))


def passes_content(turns: Sequence[Turn], target: MoveTarget) -> bool:
    """Return whether what moves goes past inserted content that is the same in all requests."""
    return _ends(turns, target) != _ends(turns, replace(target, constant=frozenset()))


def _ends(turns: Sequence[Turn], target: MoveTarget) -> list[tuple[int, int]]:
    """Return the places that a target goes to in the texts that have it, each with the end of that text."""
    return [
        (end, cue_begin(at.text))
        for turn in turns
        for at in texts_of(turn)
        for end in [_movable_end(at.text, [target], at.role, marked=_is_marked_at(turn, at))]
        if parted(at.text, [target], at.role, end).units
    ]


def _same(before: str, after: str, targets: Sequence[MoveTarget]) -> bool:
    """Return whether nothing was moved: a section that is at the end already stays there, with the blank lines before it."""
    if before == after or not any(target.sections for target in targets):
        return before == after
    said = [[line for line in str.__str__(text).split("\n") if line.strip()] for text in (before, after)]
    return said[0] == said[1]


def destination(slot: Slot, *, within: bool = False, after_mark: bool = False) -> str:
    """Return in words where `move_targets` brings the slot's line; `after_mark`: a cache breakpoint ends the message."""
    if after_mark:
        of_last = "" if within or not _is_in_message(slot) else " of the last message"
        return f"{AFTER_MARK}{of_last}"
    if within or slot.part.endswith(tuple(f"({role})" for role in _STAYS_THERE)):
        return "the end of the message"
    return "the end of the last message" if _is_in_message(slot) else "the end of the prompt"


def _is_in_message(slot: Slot) -> bool:
    return bool(role_of_part(slot.part)) or slot.part.endswith(")")


def ends_after_mark(turns: Sequence[Turn], change: Callable[[Turn], Turn]) -> bool:
    """Return whether a move makes a block of its own in most turns that it changes, as a cache breakpoint ends what is before."""
    made = [(turn, change(turn)) for turn in turns]
    changed = [_blocks(after) > _blocks(turn) for turn, after in made if after is not turn]
    return 2 * sum(changed) > len(changed) > 0


def _blocks(turn: Turn) -> int:
    """Count the blocks of the content of messages; a text is one."""
    contents = [message.get("content") for message in turn.messages or ()]
    return sum(len(content) if isinstance(content, list) else 1 for content in contents)


def _take_from_message(message: Message, targets: Sequence[MoveTarget]) -> list[MovedText]:
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


def _append(message: Message, units: list[MovedText], tail: str) -> None:
    """Put units after the text of a message, before the line ends of `tail`; after a cache breakpoint as a block of their own."""
    if units and _ends_marked(message):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        blocks = [*blocks[:-1], {**blocks[-1], **marks_on(message)}]
        message["content"] = [*blocks, {"type": "text", "text": ""}]
        for name in marks_on(message):
            del message[name]
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


def _ends_marked(message: Message) -> bool:
    """Return whether a cache breakpoint ends a message: on its last block, or on all of it."""
    content = message.get("content")
    last = content[-1] if isinstance(content, list) and content else None
    return is_marked(last) or (is_marked(message) and bool(content))


def _without_emptied(message: Message) -> dict[str, Any]:
    """Take out blocks of which all text was taken, as no API accepts an empty one; the block before gets their mark.

    Return the mark that no block of the message is left for.
    """
    content = message.get("content")
    if not isinstance(content, list):
        return {}
    kept: list[Any] = []
    orphans: dict[str, Any] = {}
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str) or text.strip():
            kept.append(part)
        elif (marks := marks_on(part)) and kept and isinstance(kept[-1], dict):
            kept[-1] = {**kept[-1], **marks}
        else:
            orphans |= marks
    message["content"] = kept
    return orphans


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
    if _ends_marked(message) and not traced[end:].strip():
        return Traced("")  # what a mark ends stays as it is: later requests send it again
    _set_last_text(message, traced[:end])
    return traced[end:]


def _is_marked_at(turn: Turn, at: TextAt) -> bool:
    return at.message is not None and _ends_marked((turn.messages or [])[at.message])


def _movable_end(text: str, targets: Sequence[MoveTarget], role: str, *, marked: bool = False) -> int:
    """Return where units may go to: before the first inserted content that they are before, else before the last line ends.

    After a `marked` text they are in a block of their own, which no inserted content can be taken for.
    """
    end = cue_begin(text)
    if marked:
        return _end_outside_blocks(text, end) if has_blocks(text) else end
    moving = [(unit.start, unit.stop) for unit in parted(text, targets, role, end).units]
    constant = frozenset[WrittenAt]().union(*(target.constant for target in targets))
    begin = inserted_begin(text, moving[0][0] if moving else 0, moving, constant)
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


def _take(text: str, targets: Sequence[MoveTarget], role: str) -> tuple[Traced, list[MovedText]]:
    """Return the text without what the targets name, and that."""
    traced = text if isinstance(text, Traced) else Traced(text)
    found = parted(traced, targets, role, len(traced))
    if not found.units:
        return traced, []
    return rearranged(traced, found.kept), [
        MovedText(traced[unit.start : unit.stop], unit.apart) for unit in found.units
    ]


class MovedWords(NamedTuple):
    """What moves, in words: a noun, its lines where it has as many in all samples (else 1), and why a unit cannot move."""

    noun: str
    lines: int
    refusal: str | None

    @property
    def told(self) -> str:
        return f"{self.noun} ({self.lines:,} lines)" if self.lines > 1 else self.noun


def moved_words(target: MoveTarget, samples: Sequence[Turn]) -> MovedWords:
    """Return what moves with the values, as the first sample tells it that has any; and why a unit of the first few cannot."""
    noun = refusal = None
    lines = set()
    for number, turn in enumerate(turn for turn in samples if has_value(turn, target)):
        if noun is not None and (refusal is not None or number >= _LOOKED_AT):
            break
        for at in texts_of(turn):
            text = str.__str__(at.text)
            for unit in contained_units(at.text, target, at.role):
                if isinstance(unit, Movable):
                    noun = noun or _noun(text, unit)
                    lines.add(text[unit.start : unit.stop].strip("\n").count("\n") + 1)
                elif number < _LOOKED_AT:
                    refusal = refusal or unit
    return MovedWords(noun or "line", lines.pop() if len(lines) == 1 else 1, refusal)


def _noun(text: str, unit: Movable) -> str:
    """Return what a unit is called: a sentence, where it is a part of its line."""
    if unit.kind == "statement":
        start, stop = line_around(text, unit.start)[0], line_around(text, max(unit.stop - 1, unit.start))[1]
        if _WORDS.search(text, start, unit.start) or _WORDS.search(text, unit.stop, stop):
            return "sentence"
    return _NOUNS.get(unit.kind, "block")
