"""Move a volatile line behind the shared text: the edit whose gain a rerun measures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from kvtool.diagnose.causes import Cause, Slot, content_part
from kvtool.diagnose.classify import DETECTORS
from kvtool.text import Traced, concat, line_around
from kvtool.workload.turn import Message, Turn

LONG_LINE = 240
"""Characters beyond which only the sentence around the value is moved, not its whole line."""

_LONGEST_LINE = 1 << 16
_SAID_THERE = ("user", "tool")
_SENTENCE_END = re.compile(r"[.!?]\s+")


def movers(causes: Iterable[Cause]) -> Callable[[Turn], Turn]:
    """A transformation that moves, in each cause's group, the lines of its slots to the end."""
    slots: dict[str, list[Slot]] = {}
    for cause in causes:
        slots.setdefault(cause.group, []).append(cause.slot)

    def transform(turn: Turn) -> Turn:
        return move_to_end(turn, *slots.get(turn.group, ()))

    return transform


def move_to_end(turn: Turn, *slots: Slot) -> Turn:
    """The turn with the slots' lines at the end of its last message; the turn itself where they do not occur.

    What a user or a tool said stays in the message in which it was said, and goes to the end of that.
    """
    if turn.text is not None:
        rest, moved = _take(turn.text, slots)
        return replace(turn, text=_with_lines(rest, moved)) if moved else turn
    messages = [dict(message) for message in turn.messages or ()]
    lines: list[Traced] = []
    changed = False
    for message in messages:
        moved = _take_from_message(message, slots)
        changed = changed or bool(moved)
        if moved and message.get("role") in _SAID_THERE:
            _append(message, moved)
        else:
            lines += moved
    if not changed:
        return turn
    if lines:
        _append(next((each for each in reversed(messages) if each.get("role") in _SAID_THERE), messages[-1]), lines)
    return replace(turn, messages=messages)


def destination(slot: Slot) -> str:
    """In words, where `move_to_end` brings the slot's line."""
    if slot.part.endswith(tuple(f"({role})" for role in _SAID_THERE)):
        return "the end of its message"
    in_message = slot.part == "system" or slot.part.endswith(")")
    return "the end of the last message" if in_message else "the end of the prompt"


def _take_from_message(message: Message, slots: Sequence[Slot]) -> list[Traced]:
    content = message.get("content")
    if isinstance(content, str):
        message["content"], moved = _take(content, slots)
        return moved
    moved = []
    if isinstance(content, list):
        parts = [dict(part) if isinstance(part, dict) else part for part in content]
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                part["text"], taken = _take(part["text"], slots)
                moved += taken
        message["content"] = parts
    return moved


def _append(message: Message, lines: list[Traced]) -> None:
    content = message.get("content")
    if not isinstance(content, list):
        message["content"] = _with_lines(content if isinstance(content, str) else "", lines)
    elif content and isinstance(content[-1], dict) and isinstance(content[-1].get("text"), str):
        content[-1]["text"] = _with_lines(content[-1]["text"], lines)  # the parts are copies already
    else:
        content.append({"type": "text", "text": _with_lines("", lines)})


def _with_lines(text: str, lines: list[Traced]) -> Traced:
    """The text and then the lines; what stood at the end already is not set apart any further."""
    gap = "\n" if text and not text.endswith("\n") else ""
    return concat([text, gap, Traced("\n").join(lines)])


def _take(text: str, slots: Sequence[Slot]) -> tuple[Traced, list[Traced]]:
    """The text without the slots' lines, and those lines."""
    traced = Traced(text)
    units: list[tuple[int, int]] = []
    for start, stop in sorted(place for slot in slots for place in _places(traced, slot)):
        low, high = _unit(traced, start, stop)
        if units and low < units[-1][1]:
            units[-1] = units[-1][0], max(high, units[-1][1])
        else:
            units.append((low, high))
    kept: list[str] = []
    moved: list[Traced] = []
    at = 0
    for low, high in units:
        kept.append(traced[at:low])
        moved.append(traced[low:high].rstrip("\r\n"))
        at = high
    return concat([*kept, traced[at:]]), moved


def _places(text: Traced, slot: Slot) -> Iterator[tuple[int, int]]:
    """Where the slot's values begin and end."""
    if slot.logged:
        yield from _logged_places(text, slot)
        return
    plain = str.__str__(text)
    at = 0
    for length, origin, offset in text.marks:
        if origin is not None and origin.path == slot.path:
            if slot.variable is not None:
                if (origin.variable, origin.line, origin.column) == (slot.variable, slot.line, slot.column):
                    yield at, at + length
            elif origin.verbatim and origin.variable is None:
                found = _line_of(plain, at, at + length, slot.line - origin.position(offset)[0])
                if found is not None:
                    yield found
        at += length


def _line_of(text: str, start: int, stop: int, number: int) -> tuple[int, int] | None:
    """Line `number` (0 is the one that `start` is on) of `text[start:stop]`, without its newline; None where there is none."""
    for _ in range(number):
        start = text.find("\n", start, stop) + 1
        if not start:
            return None
    if number < 0 or start >= stop:
        return None
    end = text.find("\n", start, stop)
    return start, stop if end < 0 else end


def _logged_places(text: Traced, slot: Slot) -> Iterator[tuple[int, int]]:
    """A value of the slot's kind on the slot's line; logs have no template that would say more."""
    source = next((origin for _, origin, _ in text.marks if origin is not None), None)
    if source is None or (source.part, content_part(source)) != (slot.part, slot.content_part):
        return
    plain = str.__str__(text)
    found = _line_of(plain, 0, len(plain), slot.line_in_text)
    if found is None:
        return
    start, stop = found
    for kind, pattern in DETECTORS:
        if kind.key == slot.kind and (value := pattern.search(plain[start : min(stop, start + _LONGEST_LINE)])):
            yield start + value.start(), start + value.end()
            return


def _unit(text: Traced, start: int, stop: int) -> tuple[int, int]:
    """What moves together: the lines around a value or, where they are long, the sentences."""
    low, high = line_around(text, start)[0], line_around(text, max(stop - 1, start))[1]
    if high - low <= LONG_LINE:
        return low, high
    plain = str.__getitem__(text, slice(low, high)).rstrip("\r\n")  # a part of a line leaves the line's end where it is
    first, last = 0, len(plain)
    for found in _SENTENCE_END.finditer(plain):
        if low + found.end() <= start:
            first = found.end()
        elif low + found.end() >= stop:
            last = found.end()
            break
    return (low, high) if (first, last) == (0, len(plain)) else (low + first, low + last)
