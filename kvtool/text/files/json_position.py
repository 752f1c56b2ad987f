"""From a value inside a JSON record back to the exact line and column of the file. Nothing here runs until somebody asks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json import JSONDecoder

_SPACE = re.compile(r"[ \t\r\n]*+")
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_DECODER = JSONDecoder(strict=False)


def value_start(text: str, pointer: Sequence[str | int]) -> int:
    """Index in a JSON text of the first character of the value at `pointer`; LookupError or ValueError where there is none."""
    at = _space(text, 0)
    for key in pointer:
        at = _element(text, at, key) if isinstance(key, int) else _member(text, at, key)
    return at


def nearest_start(text: str, pointer: Sequence[str | int]) -> int:
    """Like `value_start`, but answers with the nearest value around it that is there."""
    for length in range(len(pointer), -1, -1):
        try:
            return value_start(text, pointer[:length])
        except (LookupError, ValueError, RecursionError):
            continue
    return 0


def character_start(text: str, quote: int, offset: int) -> int:
    """Index in a JSON text of the character that decodes to number `offset` of the string literal that opens at `quote`."""
    if text[quote : quote + 1] != '"':
        raise ValueError("not a string")
    at, decoded = quote + 1, 0
    end = _end(text, quote) - 1
    for escape in _ESCAPE.finditer(text, at, end):
        plain = escape.start() - at
        if decoded + plain >= offset:
            break
        decoded += plain + 1
        at = escape.end()
    return min(at + offset - decoded, end)


def line_and_column(text: str, index: int, line: int, column: int) -> tuple[int, int]:
    """Line and column of `text[index]` in a file in which `text` begins at `line` and `column`."""
    newlines = text.count("\n", 0, index)
    if not newlines:
        return line, column + index
    return line + newlines, index - text.rindex("\n", 0, index)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _member(text: str, at: int, wanted: str) -> int:
    """Start of the value of a key; of the last one where a key is there twice, as that is the one parsers keep."""
    found = -1
    at = _enter(text, at, "{")
    while text[at : at + 1] == '"':
        key, at = _DECODER.raw_decode(text, at)
        at = _space(text, _space(text, at) + 1)  # over the colon
        if key == wanted:
            found = at
        at = _next(text, at)
    if found < 0:
        raise KeyError(wanted)
    return found


def _element(text: str, at: int, wanted: int) -> int:
    at = _enter(text, at, "[")
    for _ in range(wanted):
        at = _next(text, at)
        if text[at : at + 1] in ("]", ""):
            raise IndexError(wanted)
    return at


def _enter(text: str, at: int, bracket: str) -> int:
    if text[at : at + 1] != bracket:
        raise LookupError(f"no {bracket} here")
    return _space(text, at + 1)


def _next(text: str, at: int) -> int:
    """The start of what follows the value at `at` and its comma."""
    at = _space(text, _end(text, at))
    return _space(text, at + 1) if text[at : at + 1] == "," else at


def _end(text: str, at: int) -> int:
    """Return the end of the value at `at`."""
    end: int = _DECODER.raw_decode(text, at)[1]
    return end
