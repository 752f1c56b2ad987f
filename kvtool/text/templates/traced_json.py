"""`json.dumps` that keeps the origins of the strings it writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from kvtool.text.traced import Mark, Traced, concat

_PLACEHOLDER = re.compile(r'"\\u0000(\d+)\\u0000"')
_STEPS = 120
_MARK = 16
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}(?:\\u[dD][c-fC-F][0-9a-f]{2})?|.)")


def traced_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    *,
    pay: Callable[[int], None] | None = None,
) -> str:
    """Exactly what `json.dumps` writes; Traced where a string in `value` is. `pay` is called with the steps of each escape."""

    def dumps(some: object) -> str:
        return json.dumps(some, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    strings: list[str] = []
    emptied = _without_strings(value, strings)
    if not any(isinstance(text, Traced) for text in strings):
        return dumps(value)
    parts = _PLACEHOLDER.split(dumps(emptied))
    if len(parts) != 2 * len(strings) + 1:  # a key of the user's looks like a placeholder
        return dumps(value)
    pieces: list[str] = []
    for literal, number in zip(parts[::2], [*parts[1::2], None], strict=True):
        pieces.append(literal)
        if number is not None:
            pieces.append(_escaped(strings[int(number)], ensure_ascii, pay))
    return concat(pieces)


def _without_strings(value: object, strings: list[str]) -> object:
    """A copy of `value` in which a placeholder means each string, collected in `strings`."""
    if isinstance(value, str):
        strings.append(value)
        return f"\0{len(strings) - 1}\0"
    if isinstance(value, dict):
        return {key: _without_strings(item, strings) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_strings(item, strings) for item in value]
    return value


def _escaped(text: str, ensure_ascii: bool, pay: Callable[[int], None] | None) -> str:
    """A JSON string; an escape has the origin of the character it means."""
    dumped = json.dumps(str.__str__(text), ensure_ascii=ensure_ascii)
    if not isinstance(text, Traced):
        return dumped
    if pay is not None:
        pay(2 * _MARK * len(text.marks))
    body = dumped[1:-1]
    pieces: list[str] = ['"']
    at = seen = 0
    steps = _STEPS + _MARK * len(text.marks)
    for match in _ESCAPE.finditer(body):
        if pay is not None:
            pay(steps)
        plain = match.start() - seen
        pieces.append(text[at : at + plain])
        at += plain
        char = text[at : at + 1]
        origin, offset = char.at(0)
        pieces.append(Traced(match[0], [Mark(len(match[0]), origin, offset)]))
        at += 1
        seen = match.end()
    pieces.append(text[at:])
    pieces.append('"')
    return concat(pieces)
