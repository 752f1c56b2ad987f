"""One logged request before and after, as a diff of the lines of its body, each with its place in the JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from kvtool.workload.turn import Turn

_Line = tuple[str, str]
_CONTEXT = 1
_MOST_SHOWN = 8
"""Lines of a stretch that are shown: a block is recognized by its first ones."""
_LONGEST = 240
"""Characters of a new block that are shown."""
_MOST_LINES = 20_000
"""Lines of what differs that are compared; of a longer body its beginning."""


@dataclass(frozen=True, slots=True)
class RequestEdit:
    """One request before and after: its record's JSON value, both without reported reads, and the turns of both."""

    path: str
    record: int
    before: Any
    after: Any
    turn: Turn
    edited: Turn


def request_diff(edit: RequestEdit) -> str:
    """Return the diff: a head for each place, as `@@ system[0].text, line 2 @@`, and the line before and after it."""
    pieces = [f"--- {edit.path}, record {edit.record}\n", f"+++ {edit.path}, record {edit.record}, optimized\n"]
    old, new, first = _parted(edit)
    for tag, low, high, other_low, other_high in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        gone, come = old[low:high], new[other_low:other_high]
        path = (gone or come)[0][0]
        pieces.append(f"@@ {_place(old if gone else new, low if gone else other_low, first)} @@\n")
        pieces += [f" {text}\n" for where, text in old[max(low - _CONTEXT, 0) : low] if where == path]
        pieces += [f"-{text}\n" for text in _shortened([text for _, text in gone])]
        pieces += [f"+{text}\n" for text in _shortened([text for _, text in _with_places(come, path)])]
        pieces += [f" {text}\n" for where, text in old[high : high + _CONTEXT] if where == path]
    return "".join(pieces)


def _shortened(lines: list[str]) -> list[str]:
    """Return the first lines of many, and how many there are more."""
    left = len(lines) - _MOST_SHOWN
    return lines if left <= 1 else [*lines[:_MOST_SHOWN], f"({left:,} more lines)"]


def count_changes(edit: RequestEdit) -> int:
    """Count the places of a diff."""
    old, new, _ = _parted(edit)
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(tag != "equal" for tag, *_ in opcodes)


def changed_places(edit: RequestEdit) -> list[str]:
    """Return the places at which a request differs."""
    old, new, _ = _parted(edit)
    found: dict[str, None] = {}
    for tag, low, high, other_low, other_high in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            found.update(dict.fromkeys(path for path, _ in (*old[low:high], *new[other_low:other_high])))
    return list(found)


def _parted(edit: RequestEdit) -> tuple[list[_Line], list[_Line], dict[str, int]]:
    """Return the lines of both bodies between those that both begin and end with, and by path how many come before."""
    old, new = list(_lines(edit.before, edit.after)), list(_lines(edit.after, edit.before))
    low = 0
    while low < min(len(old), len(new)) and old[low] == new[low]:
        low += 1
    high = 0
    while high < min(len(old), len(new)) - low and old[-1 - high] == new[-1 - high]:
        high += 1
    start, high = max(low - _CONTEXT, 0), max(high - _CONTEXT, 0)
    first: dict[str, int] = {}
    for path, _ in old[:start]:
        first[path] = first.get(path, 0) + 1
    kept = (lines[start : len(lines) - high][:_MOST_LINES] for lines in (old, new))
    return *kept, first  # type: ignore[return-value]  # the two of them


def _place(lines: list[_Line], at: int, first: dict[str, int]) -> str:
    path = lines[at][0]
    line = 1 + first.get(path, 0) + sum(where == path for where, _ in lines[:at])
    several = line > 1 or sum(where == path for where, _ in lines) > 1
    return f"{path}, line {line}" if several else path


def _with_places(lines: list[_Line], path: str) -> Iterator[_Line]:
    """Yield lines; those of other places begin with these."""
    for where, text in lines:
        yield where, text if where == path else f"{where}: {text}"


def _lines(value: Any, other: Any, path: str = "") -> Iterator[_Line]:
    """Yield the lines of all texts and values of a body; what the other body has nothing in place of is one line."""
    if isinstance(value, str) and isinstance(
        other, list
    ):  # a text that became a list of blocks, or the other way round
        value = [{"type": "text", "text": value}]
    elif isinstance(value, list) and isinstance(other, str):
        other = [{"type": "text", "text": other}]
    if isinstance(value, dict) and value and isinstance(other, dict):
        for name, each in value.items():
            yield from _lines(each, other.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and isinstance(other, list):
        for number, each in enumerate(value):
            yield from _lines(each, other[number] if number < len(other) else None, f"{path}[{number}]")
    elif isinstance(value, str):
        yield from ((path, line) for line in value.split("\n"))
    else:
        line = json.dumps(value, ensure_ascii=False)
        yield path, line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
