"""Files of known tools that are not read: each is refused by its name, with what works instead. The table is `unread.toml`."""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import Fields, LeftOut, RecordFormat


@dataclass(frozen=True, slots=True)
class UnreadShape:
    """A shape of files: names of their fields or columns, or a pattern of their text."""

    message: str
    hint: str
    fields: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    line: str = ""
    left_out: str = ""


@cache
def unread_shapes() -> tuple[UnreadShape, ...]:
    """Return all shapes, in the order of the table."""
    table = tomllib.loads(files(__package__).joinpath("unread.toml").read_text(encoding="utf-8"))
    return tuple(_shape(each) for each in table["file"])


def _shape(row: dict[str, Any]) -> UnreadShape:
    made: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in row.items()}
    return UnreadShape(**made)


def shape_of(fields: Fields) -> UnreadShape | None:
    """Return the shape of a record; None where it has none of them."""
    for each in unread_shapes():
        if each.fields and fields.keys() >= set(each.fields) and fields.keys().isdisjoint(each.without):
            return each
    return None


def shape_of_table(columns: Collection[str]) -> UnreadShape | None:
    """Return the shape of a table; None where it has none of them."""
    return next((each for each in unread_shapes() if each.columns and set(columns) >= set(each.columns)), None)


def read(record: Record) -> LeftOut:
    """Raise what the record is; return what is only counted."""
    shape = shape_of(record.fields)
    assert shape is not None
    if shape.left_out:
        return LeftOut(shape.left_out, hint=shape.hint)
    raise record.error(shape.message, hint=shape.hint)


def fits(fields: Fields) -> bool:
    """Return whether a record is of a tool whose files are not read."""
    return shape_of(fields) is not None


def begins(head: bytes, path: str) -> bool:
    """Return whether a text is of a tool whose files are not read."""
    del path
    return _text_shape(head) is not None


def refuse(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """Raise what the text is."""
    del file
    shape = _text_shape(reader.peek(1 << 16))
    assert shape is not None
    raise KvtoolError(shape.message, hint=shape.hint, place=Place(path))


def _text_shape(head: bytes) -> UnreadShape | None:
    text = head.decode(errors="replace")
    return next((each for each in unread_shapes() if each.line and re.search(each.line, text, re.MULTILINE)), None)


FORMAT = RecordFormat("unread", "fields of files that contain no sent prompts", fits, read)
FILE_KINDS = (FileKind("unread", "lines of files that contain no sent prompts", begins, refuse),)
