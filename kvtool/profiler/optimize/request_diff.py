"""One logged request before and after, as a diff of the lines of its body, each with its place in the JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from kvtool.diagnose.compare.tools import tool_name
from kvtool.text.cache_marks import without_marks
from kvtool.workload.turn import Turn

_Line = tuple[str, str]
_CONTEXT = 1
_MOST_SHOWN = 8
"""Lines of a stretch that are shown: a block is recognized by its first ones."""
_LONGEST = 240
"""Characters of a line or of a new block that are shown."""
_BEFORE = 60
"""Characters of a long line that are shown before its first change."""
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
    pieces = [f"--- {edit.path}:{edit.record}\n", f"+++ {edit.path}:{edit.record}, optimized\n"]
    old, new, first = _parted(edit)
    for tag, low, high, other_low, other_high in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for path in (
            () if tag == "equal" else dict.fromkeys(path for path, _ in (*old[low:high], *new[other_low:other_high]))
        ):
            gone, come = (
                [at for at in each if lines[at][0] == path]
                for lines, each in ((old, range(low, high)), (new, range(other_low, other_high)))
            )
            pieces.append(f"@@ {_place(old, gone[0], first) if gone else _place(new, come[0], first)} @@\n")
            texts = [old[at][1] for at in gone], [new[at][1] for at in come]
            change = _first_change(*texts)
            pieces += [f" {_cut(text)}\n" for where, text in old[max(low - _CONTEXT, 0) : low] if where == path]
            pieces += [f"-{_cut(text, change)}\n" for text in _shortened(texts[0])]
            pieces += [f"+{_cut(text, change)}\n" for text in _shortened(texts[1])]
            pieces += [f" {_cut(text)}\n" for where, text in old[high : high + _CONTEXT] if where == path]
    return "".join(pieces)


def _first_change(gone: list[str], come: list[str]) -> int:
    """Return at which character two single lines begin to differ; 0 where more than one line differs."""
    if len(gone) != 1 or len(come) != 1:
        return 0
    differ = (at for at, pair in enumerate(zip(gone[0], come[0], strict=False)) if pair[0] != pair[1])
    return next(differ, min(len(gone[0]), len(come[0])))


def _cut(text: str, change: int = 0) -> str:
    """Return what is shown of a line: around its first change, with … where something is left out."""
    start = change - _BEFORE if len(text) > _LONGEST and change > _BEFORE else 0
    shown = text[start : start + _LONGEST]
    return f"{'…' if start else ''}{shown}{'…' if start + len(shown) < len(text) else ''}"


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


def _lines(value: Any, other: Any, path: str = "") -> Iterator[_Line]:
    """Yield the lines of all texts and values of a body; what the other body has nothing in place of is one line."""
    if isinstance(value, str) and isinstance(
        other, list
    ):  # a text that became a list of blocks, or the other way round
        value = [{"type": "text", "text": value}]
    elif isinstance(value, list) and isinstance(other, str):
        other = [{"type": "text", "text": other}]
    if (order := _another_order(value, other)) is not None:
        yield path, order
    elif isinstance(value, dict) and value and isinstance(other, dict):
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


def _another_order(value: Any, other: Any) -> str | None:
    """Return what is said of the order of items or keys where another value is the same but for these; else None."""
    if not isinstance(value, dict | list) or not value or type(value) is not type(other):
        return None
    if isinstance(value, dict) and (set(value) != set(other) or list(value) == list(other)):
        return None  # or the order is one of something within it
    texts, others = (_items_without_order(each) for each in (value, other))
    if sorted(texts) != sorted(others) or json.dumps(value) == json.dumps(other):
        return None
    if texts != others and isinstance(value, list):
        return f"in this order: {', '.join(tool_name(item) or text for item, text in zip(value, texts, strict=True))}"
    bare = [without_marks(each) for each in value] if isinstance(value, list) else without_marks(value)
    in_order = json.dumps(bare) == json.dumps(bare, sort_keys=True)
    return "with keys in alphabetical order" if in_order else "with keys in the order of this request"


def _items_without_order(value: Any) -> list[str]:
    """Return the items of a list, or the entries of an object, as JSON whose keys are in order."""
    items = value if isinstance(value, list) else sorted(value.items(), key=lambda item: str(item[0]))
    return [json.dumps(item, sort_keys=True) for item in items]
