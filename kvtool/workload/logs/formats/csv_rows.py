"""Tables in text, CSV and TSV, a header line first: each row is a record."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Protocol

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import refuse_binary, uncompressed
from kvtool.text.files.json_stream import MAX_RECORD, RawRecord
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.logs.formats.table_rows import PROMPT_COLUMNS, column_name, holds_prompts, record_of

_SUFFIXES = (".csv", ".tsv", ".psv")
_DELIMITERS = (",", "\t", ";", "|")
_CELL = 16
"""Bytes of memory that a cell takes beside its text."""
_LONGEST_NAME, _MOST_COLUMNS = 200, 1_000
_SHOWN = 12


class _CsvReader(Protocol):
    """What `csv.reader` gives."""

    @property
    def line_num(self) -> int: ...
    def __next__(self) -> list[str]: ...


def begins(head: bytes, path: str) -> bool:
    """Whether a file is a table: by its name, or by a header line of which a column holds prompts."""
    name = uncompressed(path.lower())
    if name.endswith(_SUFFIXES):
        return head.lstrip()[:1] not in (b"[", b"{")
    names, _ = _header(head)
    return len(names) > 1 and any(each in PROMPT_COLUMNS for each in names)


def records(reader: io.BufferedReader, _file: str, path: str) -> Iterator[RawRecord]:
    """The rows of a table. KvtoolError where no column holds prompts, or it is no text."""
    refuse_binary(reader, path)
    names, delimiter = _header(reader.peek(1 << 16))
    if not holds_prompts(names):
        raise KvtoolError(
            f"a table without a column that holds prompts: {fields_shown('column', names, _SHOWN)}",
            hint="prompts stand in a column `messages` (JSON), `prompt`, `request` or `body`",
            place=Place(path, 1, 1),
        )
    # The only way to have longer cells; the limit is the process's, and nothing else here reads tables.
    csv.field_size_limit(MAX_RECORD)
    text = io.TextIOWrapper(reader, encoding="utf-8-sig", newline="")
    try:
        lines = _Lines(text, path)
        yield from _rows(csv.reader(lines, delimiter=delimiter, strict=True), lines, names, path)
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
        """What comes is of the next row."""
        self._size = 0


def _rows(rows: _CsvReader, lines: _Lines, names: list[str], path: str) -> Iterator[RawRecord]:
    """Each row behind the header, with the line on which it begins."""
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
            reason = (
                "a quoted cell does not end" if "unexpected end" in str(error) else "its quotes do not fit together"
            )
            yield RawRecord(b"", line, 1, True, f"no row of a table ({reason})", value={})
            lines.end_row()
            continue
        lines.end_row()
        if header:
            header = False
        elif len(row) > len(names):
            problem = f"no row of a table ({len(row)} cells for {len(names)} columns)"
            yield RawRecord(b"", line, 1, True, problem, value={})
        elif row and any(row):
            yield RawRecord(b"", line, 1, True, value=record_of(names, row))


def _header(head: bytes) -> tuple[list[str], str]:
    """The names of the columns and what stands between them."""
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
