"""JSON files that are read whole; what is wrong with one is said with its line and column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_position import line_and_column

_DEEPEST = 500
"""Brackets in each other at which a document that is nested too deeply is said to be so."""
_EXCERPT = 200
_MOST_DIGITS = 4300
"""Of a number that Python reads."""
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]|[0-9]++', re.DOTALL)


def json_of(
    text: str,
    *,
    shown: str,
    broken: Callable[[str], str] = "not JSON: {}".format,
    hint: str | None = None,
    **hooks: Any,
) -> Any:
    """The value of a JSON text, by `json.loads` with these hooks; KvtoolError with its place in the file `shown` where it is none.

    `broken` puts the reason into the words of the message.
    """
    try:
        return json.loads(text, **hooks)
    except json.JSONDecodeError as error:
        raise KvtoolError(broken(error.msg), hint=hint, place=place_in(text, shown, error.pos)) from None
    except RecursionError:
        raise KvtoolError(
            broken("nested too deeply"), hint=hint, place=place_in(text, shown, unreadable_at(text))
        ) from None
    except ValueError as error:  # a number of thousands of digits, or what a hook refuses
        reason = str(error).partition(";")[0]
        raise KvtoolError(broken(reason), hint=hint, place=place_in(text, shown, unreadable_at(text))) from None


def unreadable_at(text: str, most_digits: int = _MOST_DIGITS) -> int:
    """Index of the first bracket that is nested too deeply, or of the first number that is too long to be read; 0 where there is
    neither."""
    depth = 0
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > _DEEPEST:
                return found.start()
        elif mark in "]}":
            depth -= 1
        elif mark[0] != '"' and len(mark) > most_digits:
            return found.start()
    return 0


def place_in(text: str, shown: str, index: int) -> Place:
    """The place of a character of the text of a file."""
    line, column = line_and_column(text, index, 1, 1)
    start = text.rfind("\n", 0, index) + 1
    end = text.find("\n", index)
    excerpt = text[start : end if end >= 0 else len(text)].rstrip("\r")
    return Place(shown, line, column, excerpt if len(excerpt) <= _EXCERPT else None)
