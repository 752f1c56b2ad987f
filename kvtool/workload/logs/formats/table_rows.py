"""Rows of tables as records: cells that hold JSON as what it says, numbers as numbers, names of columns as logs write them."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from kvtool.text.bounded_number import json_number
from kvtool.workload.logs.formats.servers.python_reprs import literal
from kvtool.workload.logs.records.record import parsed_text

Fields = dict[str, Any]

PROMPT_COLUMNS = frozenset(
    (
        *(
            "messages",
            "prompt",
            "request",
            "body",
            "request_body",
            "payload",
            "contents",
            "conversation",
            "conversations",
        ),
        *("input", "inputs", "text", "instruction", "instructions", "prompts", "kwargs", "params", "token_ids"),
        *(
            "prompt_token_ids",
            "hash_ids",
            "full_request",
            "proxy_server_request",
            "turns",
            "question",
            "message",
            "@message",
        ),
        *("inputBodyJson", "gen_ai.input.messages", "gen_ai.prompt"),
    )
)
"""Columns that may hold what was asked."""
_TEXTS = frozenset(
    (
        "prompt",
        "text",
        "input",
        "inputs",
        "instruction",
        "question",
        "completion",
        "answer",
        "content",
        "system",
        "message",
    )
)
"""Columns whose cells are texts as they are, also where they look like JSON, unless they say messages."""
_NUMBER = re.compile(r"[-+]?\d{1,40}(?:\.\d{1,40})?(?:[eE][-+]?\d{1,3})?")
_NUMBERS = re.compile(
    r"(?:tokens?|count|cost|spend|status|status_code|length|price|_ms|_us|_ns)(?:_usd)?$", re.IGNORECASE
)
_NOTHING = frozenset(("", "NULL", "null", "None", "NaN", "nan", "\\N", "N/A"))
_LONGEST_PYTHON, _MOST_PYTHON = 8 << 20, 400_000
"""Characters, and values: Python's parser takes some hundred bytes for each."""
_NESTED = frozenset(("usage", "metadata", "request", "response", "body", "payload"))
_ALIASES = {"session": "session_id", "date": "timestamp", "datetime": "timestamp", "answer": "response"}
_BODY = frozenset(("messages", "contents", "prompt", "input", "instructions", "inputs"))


def column_name(name: str) -> str:
    """A column's name as logs write it: `Session ID` is `session_id`."""
    name = name.strip().lstrip("\ufeff")
    if " " in name or "-" in name or name[:1].isupper():
        name = re.sub(r"[\s-]+", "_", name.lower())
    return name


def holds_prompts(names: list[str]) -> bool:
    """Whether one of these columns may hold what was asked."""
    return any(name in PROMPT_COLUMNS or _parts(name)[-1] in PROMPT_COLUMNS for name in names)


def record_of(names: list[str], cells: list[Any]) -> Fields:
    """The record of a row; what its cells do not say is not in it."""
    record: Fields = {}
    for name, cell in zip(names, cells, strict=False):
        value = _said(name, cell)
        if value is None:
            continue
        *outer, last = _parts(name)
        holder = record
        for step in outer:
            inner = holder.setdefault(step, {})
            if not isinstance(inner, dict):
                break
            holder = inner
        else:
            holder.setdefault(last, value)
    for name, usual in _ALIASES.items():
        if name in record and usual not in record:
            record[usual] = record.pop(name)
    return record


def _parts(name: str) -> list[str]:
    parts = name.split(".")
    return parts if len(parts) > 1 and parts[0] in _NESTED else [name]


def _said(name: str, cell: Any) -> Any:
    """What a cell says; None for nothing."""
    if not isinstance(cell, str):
        return _plain(cell)
    if name in _TEXTS:
        if not cell:
            return None
        parsed = _parsed(cell)
        return parsed if parsed is not None and _says_messages(parsed) else cell
    if cell.strip() in _NOTHING:
        return None
    if _NUMBERS.search(name) and _NUMBER.fullmatch(cell.strip()):
        return json_number(cell, in_text=True)
    parsed = _parsed(cell)
    return cell if parsed is None else parsed


def _parsed(cell: str) -> Any:
    """JSON in a cell, or a list or object as Python writes it; None where it is neither."""
    parsed = parsed_text(cell)
    if parsed is not None or not cell.lstrip().startswith(("[{'", '[{"', "{'", '{"')):
        return parsed
    long = len(cell) > _LONGEST_PYTHON or sum(map(cell.count, ",[({")) > _MOST_PYTHON
    return None if long else _plain(literal(cell.strip()))


def _says_messages(value: Any) -> bool:
    if isinstance(value, dict):
        return not _BODY.isdisjoint(value)
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and not {"role", "from", "type"}.isdisjoint(first)


def _plain(value: Any) -> Any:
    """A value of a column of some type as one of JSON; what is not there at all is left out."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return json_number(value)
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        case date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="replace")
        case dict():
            said = {str(key): _plain(each) for key, each in value.items()}
            return {key: each for key, each in said.items() if each is not None or key == "content"}
        case list() | tuple():
            if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):  # a map
                return _plain(dict(value))
            return [_plain(each) for each in value]
        case bool() | int() | str() | None:
            return value
        case _:
            return str(value)
