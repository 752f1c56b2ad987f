"""Move a volatile line behind the shared text: the edit whose gain a rerun measures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kvtool.diagnose.causes import Cause, Slot
from kvtool.diagnose.classify import DETECTORS
from kvtool.text import Traced, concat, line_around
from kvtool.workload.turn import Message, Turn

LONG_LINE = 240
"""Characters beyond which only the sentence around the value is moved, not its whole line."""

_SENTENCE_END = re.compile(r"[.!?]\s+")


def movers(causes: Iterable[Cause]) -> Callable[[Turn], Turn]:
    """A transformation that moves, in each cause's group, the line of its slot to the end of the prompt's last message."""
    slots = {cause.group: cause.slot for cause in causes}

    def transform(turn: Turn) -> Turn:
        slot = slots.get(turn.group)
        return turn if slot is None else move_to_end(turn, slot)

    return transform


def move_to_end(turn: Turn, slot: Slot) -> Turn:
    """The turn with the slot's line at its end; the turn itself where the slot does not occur."""
    if turn.text is not None:
        rest, moved = _take(turn.text, slot)
        return replace(turn, text=concat([rest.rstrip("\n"), "\n", *moved])) if moved else turn
    if not turn.messages:
        return turn
    messages = [dict(message) for message in turn.messages]
    moved = []
    for index, message in enumerate(messages):
        if slot.logged and slot.message_index not in (None, index):
            continue
        moved += _take_from_message(message, slot)
    if not moved:
        return turn
    target = next((message for message in reversed(messages) if message.get("role") in ("user", "tool")), messages[-1])
    _append(target, concat(["\n", *moved]))
    return replace(turn, messages=messages)


def _take_from_message(message: Message, slot: Slot) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        message["content"], moved = _take(content, slot)
        return moved
    moved = []
    if isinstance(content, list):
        parts = [dict(part) if isinstance(part, dict) else part for part in content]
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                part["text"], taken = _take(part["text"], slot)
                moved += taken
        message["content"] = parts
    return moved


def _append(message: Message, text: Traced) -> None:
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = [*content, {"type": "text", "text": text}]
    else:
        message["content"] = concat([content or "", text])


def _take(text: str, slot: Slot) -> tuple[Traced, list[str]]:
    """The text without the slot's lines, and those lines."""
    traced = Traced(text)
    units: list[tuple[int, int]] = []
    for index in _places(traced, slot):
        unit = _unit(traced, index)
        if not units or unit[0] >= units[-1][1]:
            units.append(unit)
    kept: list[str] = []
    moved: list[str] = []
    at = 0
    for start, stop in units:
        kept.append(traced[at:start])
        moved.append(traced[start:stop].strip("\n"))
        at = stop
    return concat([*kept, traced[at:]]), moved


def _places(text: Traced, slot: Slot) -> Iterator[int]:
    """Where the slot's values begin."""
    if slot.logged:
        yield from _logged_places(text, slot)
        return
    at = 0
    for length, origin, offset in text.marks:
        if origin is not None and origin.path == slot.path:
            if slot.variable is not None:
                if (origin.variable, origin.line, origin.column) == (slot.variable, slot.line, slot.column):
                    yield at
            elif origin.verbatim and origin.variable is None:
                for index in range(length):
                    if (index == 0 or text[at + index - 1] == "\n") and origin.position(offset + index)[0] == slot.line:
                        yield at + index
                        break
        at += length


def _logged_places(text: Traced, slot: Slot) -> Iterator[int]:
    """A value of the slot's kind on the slot's line; logs have no template that would say more."""
    lines = str.split(text, "\n", slot.line_in_text + 1)
    if slot.line_in_text >= len(lines):
        return
    start = sum(len(line) + 1 for line in lines[: slot.line_in_text])
    line = lines[slot.line_in_text]
    for kind, pattern in DETECTORS:
        if kind.key == slot.kind and (found := pattern.search(line[: 1 << 16])):
            yield start + found.start()
            return


def _unit(text: Traced, index: int) -> tuple[int, int]:
    """What moves together: the line around a place or, where that is long, the sentence."""
    start, stop = line_around(text, index)
    if stop - start <= LONG_LINE:
        return start, stop
    line = str.__getitem__(text, slice(start, stop))
    low, high = 0, len(line)
    for found in _SENTENCE_END.finditer(line):
        if found.end() <= index - start:
            low = found.end()
        else:
            high = found.end()
            break
    return start + low, start + high
