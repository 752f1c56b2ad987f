"""Values as Python's `repr` writes them into logs: texts, arguments of a dataclass, items of a dict, without running anything."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from kvtool.text.bounded_number import json_number

_STRING = re.compile(r"'[^'\\]*+(?:\\.[^'\\]*+)*+'|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"", re.DOTALL)
_TOKEN = re.compile(_STRING.pattern + r"|[()\[\]{},'\"]", re.DOTALL)
_LONGEST = 64 << 20  # characters: that of a record
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGERS = re.compile(r"\[(?:\d{1,10}(?:, ?\d{1,10})*)?\]")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?(?:e[-+]?\d{1,3})?")


def literal(written: str) -> Any:
    """Return the value of a literal; None for what is none."""
    if len(written) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not write
            return ast.literal_eval(written)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def string_at(text: str, at: int) -> tuple[str, int] | None:
    """Return the text that is written there and where it ends; None where there is none, or its end is missing."""
    found = _STRING.match(text, at)
    if found is None:
        return None
    written = found[0]
    value = written[1:-1] if "\\" not in written and "\n" not in written else literal(written)
    return (_SURROGATE.sub("\ufffd", value), found.end()) if isinstance(value, str) else None


def string_of(written: str) -> str | None:
    """Return the text that is written; None for what is none."""
    found = string_at(written, 0)
    return found[0] if found is not None and found[1] == len(written) else None


def integers_of(written: str) -> list[int] | None:
    """Return a list of whole numbers that are not negative; None for what is none."""
    return ast.literal_eval(written) if _INTEGERS.fullmatch(written) else None


def number_of(written: str) -> int | float | None:
    """Return a number; None for what is none."""
    if not _NUMBER.fullmatch(written):
        return None
    return json_number(written, in_text=True)


def items_at(text: str, at: int) -> tuple[dict[str, str], int]:
    """Return the items written after the bracket before `at`, as `name=value` or `'name': value`, each as it is written, and where
    the closing one ends; -1 where that is missing, and what is whole before it."""
    items: dict[str, str] = {}
    depth, start = 0, at
    for token in _TOKEN.finditer(text, at):
        mark = token[0]
        if mark in ("'", '"'):  # a text that does not end: nothing after it can be distinguished
            return items, -1
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            if not depth:
                _add(items, text[start : token.start()])
                return items, token.end()
            depth -= 1
        elif mark == "," and not depth:
            _add(items, text[start : token.start()])
            start = token.end()
    return items, -1


def _add(items: dict[str, str], written: str) -> None:
    written = written.strip()
    quoted = string_at(written, 0)
    if quoted is not None and written[quoted[1] : quoted[1] + 1] == ":":
        items.setdefault(quoted[0], written[quoted[1] + 1 :].strip())
    elif quoted is None and "=" in written:
        name, _, value = written.partition("=")
        items.setdefault(name, value)
