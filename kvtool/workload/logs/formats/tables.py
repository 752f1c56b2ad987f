"""Tables in text, CSV and TSV, a header line first, and rows of any table as records.

Cells that contain JSON become what it says, those with numbers become numbers, and columns get the names that logs use.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Protocol

from kvtool.errors import KvtoolError, Place
from kvtool.text.bounded_number import json_number
from kvtool.text.files.compressed import refuse_binary, uncompressed
from kvtool.text.files.json_stream import MAX_RECORD, RawRecord
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.formats.servers.python_reprs import literal
from kvtool.workload.logs.formats.unread import shape_of_table
from kvtool.workload.logs.formats.usage_exports import billed_row, export_of_table
from kvtool.workload.logs.records.record import parsed_text, since_1970

_SUFFIXES = (".csv", ".tsv", ".psv")
_DELIMITERS = (",", "\t", ";", "|")
_CELL = 16
"""Bytes of memory that a cell takes beside its text."""
_LONGEST_NAME, _MOST_COLUMNS = 200, 1_000
_SHOWN = 12  # columns that a message names
Fields = dict[str, Any]

PROMPT_COLUMNS = frozenset(
    (
        *("messages", "prompt", "request", "body", "request_body", "payload", "contents", "conversation"),
        *("conversations", "input", "inputs", "text", "instruction", "instructions", "prompts", "kwargs", "params"),
        *("token_ids", "prompt_token_ids", "hash_ids", "full_request", "proxy_server_request", "turns", "question"),
        *("message", "@message", "heliconeMetadata", "inputBodyJson", "gen_ai.input.messages", "gen_ai.prompt"),
        *("attributes.llm.input_messages", "attributes.input.value"),
    )
)
"""Columns that may hold what was asked."""
_TEXTS = frozenset(
    (
        *("prompt", "text", "input", "inputs", "instruction", "question", "completion", "answer", "content"),
        *("system", "message"),
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


class _CsvReader(Protocol):
    """The reader that `csv.reader` returns."""

    @property
    def line_num(self) -> int: ...
    def __next__(self) -> list[str]: ...


def begins(head: bytes, path: str) -> bool:
    """Return whether a file is a table: by its name, or by a header line of which a column holds prompts."""
    name = uncompressed(path.lower())
    if name.endswith(_SUFFIXES):
        return head.lstrip()[:1] not in (b"[", b"{")
    names, _ = _header(head)
    return len(names) > 1 and any(each in PROMPT_COLUMNS for each in names)


def records(reader: io.BufferedReader, _file: str, path: str) -> Iterator[RawRecord]:
    """Yield the rows of a table. KvtoolError where no column holds prompts, or it is no text."""
    refuse_binary(reader, path)
    names, delimiter = _header(reader.peek(1 << 16))
    export = export_of_table(names)
    if export is None and not holds_prompts(names):
        if (shape := shape_of_table(names)) is not None:
            raise KvtoolError(shape.message, hint=shape.hint, place=Place(path, 1, 1))
        raise KvtoolError(
            f"the table has no column with prompts: {fields_shown('column', names, _SHOWN)}",
            hint="name the column `messages` (JSON), `prompt`, `request` or `body`",
            place=Place(path, 1, 1),
        )
    # The only way to have longer cells; the limit is the process's, and nothing else here reads tables.
    csv.field_size_limit(MAX_RECORD)
    text = io.TextIOWrapper(reader, encoding="utf-8-sig", newline="")
    try:
        lines = _Lines(text, path)
        for row in _rows(csv.reader(lines, delimiter=delimiter, strict=True), lines, names, path):
            if export is not None and row.problem is None:
                row = row._replace(value=billed_row(export, row.value))
            yield row
    finally:
        text.detach()


class _Lines:
    """The lines of a table. A row may be on many of them; KvtoolError where it is longer than a record may be."""

    def __init__(self, text: io.TextIOWrapper, path: str) -> None:
        self._text = text
        self._path = path
        self._number = self._size = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._text.readline(MAX_RECORD + 1):
            self._number += 1
            self._size += len(line) + _CELL * sum(map(line.count, _DELIMITERS))
            if self._size > MAX_RECORD:
                raise KvtoolError(f"a row of more than {MAX_RECORD >> 20} MiB", place=Place(self._path, self._number))
            yield line

    def end_row(self) -> None:
        """Begin the next row."""
        self._size = 0


def _rows(rows: _CsvReader, lines: _Lines, names: list[str], path: str) -> Iterator[RawRecord]:
    """Yield each row after the header, with the line on which it begins."""
    header = True
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except UnicodeDecodeError as error:
            message = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
            hint = "convert the file: iconv -f LATIN1 -t UTF-8"
            raise KvtoolError(message, hint=hint, place=Place(path, line)) from None
        except csv.Error as error:
            reason = "a quoted cell is never closed" if "unexpected end" in str(error) else "its quotes do not match"
            yield RawRecord(b"", line, 1, True, f"bad table row ({reason})", value={})
            lines.end_row()
            continue
        lines.end_row()
        if header:
            header = False
        elif len(row) > len(names):
            problem = f"bad table row ({len(row)} cells for {len(names)} columns)"
            yield RawRecord(b"", line, 1, True, problem, value={})
        elif row and any(row):
            yield RawRecord(b"", line, 1, True, value=record_of(names, row))


def _header(head: bytes) -> tuple[list[str], str]:
    """Return the names of the columns and what is between them."""
    text = head.decode("utf-8-sig", errors="replace").lstrip("\r\n")
    best: tuple[list[str], str] = ([], ",")
    for delimiter in _DELIMITERS:
        try:
            first = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            continue
        names = [column_name(name) for name in first[:_MOST_COLUMNS]]
        if any(len(name) > _LONGEST_NAME for name in names):
            continue
        if (holds_prompts(names), len(names)) > (holds_prompts(best[0]), len(best[0])):
            best = (names, delimiter)
    return best


def column_name(name: str) -> str:
    """Return a column's name as logs write it: `Session ID` is `session_id`."""
    name = name.strip().lstrip("\ufeff")
    if " " in name or "-" in name or name[:1].isupper():
        name = re.sub(r"[\s-]+", "_", name.lower())
    return name


def holds_prompts(names: list[str]) -> bool:
    """Return whether one of these columns may hold what was asked."""
    return any(name in PROMPT_COLUMNS or _parts(name)[-1] in PROMPT_COLUMNS for name in names)


def record_of(names: list[str], cells: list[Any]) -> Fields:
    """Return the record of a row; what its cells do not say is not in it."""
    record: Fields = {}
    for name, cell in zip(names, cells, strict=False):
        value = _cell_value(name, cell)
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


def _cell_value(name: str, cell: Any) -> Any:
    """Return the value of a cell; None for an empty one."""
    if not isinstance(cell, str):
        return _plain(cell)
    if name in _TEXTS:
        if not cell:
            return None
        parsed = _parsed(cell)
        return parsed if parsed is not None and _has_message_fields(parsed) else cell
    if cell.strip() in _NOTHING:
        return None
    if _NUMBERS.search(name) and _NUMBER.fullmatch(cell.strip()):
        return json_number(cell, in_text=True)
    parsed = _parsed(cell)
    return cell if parsed is None else parsed


def _parsed(cell: str) -> Any:
    """Return JSON in a cell, or a list or object as Python writes it; None where it is neither."""
    parsed = parsed_text(cell)
    if parsed is not None or not cell.lstrip().startswith(("[{'", '[{"', "{'", '{"')):
        return parsed
    long = len(cell) > _LONGEST_PYTHON or sum(map(cell.count, ",[({")) > _MOST_PYTHON
    return None if long else _plain(literal(cell.strip()))


def _has_message_fields(value: Any) -> bool:
    if isinstance(value, dict):
        return not _BODY.isdisjoint(value)
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and not {"role", "from", "type"}.isdisjoint(first)


def _plain(value: Any) -> Any:
    """Return a value of a column of some type as one of JSON; what is not there at all is left out."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return json_number(value)
        case datetime():
            return since_1970(value)
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


FILE_KINDS = (
    FileKind(
        "table",
        "a header line with a column of prompts",
        begins,
        records,
        example="session_id,prompt,prompt_tokens,cached_tokens\ns1,Is it open?,24,16\n",
        file="export.csv",
    ),
)
