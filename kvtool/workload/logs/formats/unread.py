"""Files of known tools that are not read: each is refused by its name, with what works instead. The table is `unread.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import Fields, LeftOut, RecordFormat

_LOOKED_AT = 256
"""Characters of a line."""


@dataclass(frozen=True, slots=True)
class UnreadShape:
    """A shape of files: names of their fields or columns."""

    message: str
    hint: str
    fields: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    inside: str = ""
    """A field that a record of no known format has: names of objects in each other, through the first of a list."""
    left_out: str = ""
    line: str = ""
    """A pattern of its first line, where it is no JSON."""


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


def shape_inside(fields: Fields) -> UnreadShape | None:
    """Return the shape of a record that no format knows, by a field anywhere in it; None where it has none of them."""
    return next((each for each in unread_shapes() if each.inside and _has(fields, each.inside.split("."))), None)


def _has(value: object, path: list[str]) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return not path or (isinstance(value, dict) and path[0] in value and _has(value[path[0]], path[1:]))


def shape_of_table(columns: Collection[str]) -> UnreadShape | None:
    """Return the shape of a table; None where it has none of them."""
    names = {name.lower() for name in columns}
    return next((each for each in unread_shapes() if each.columns and names >= set(each.columns)), None)


def shape_of_line(line: str) -> UnreadShape | None:
    """Return the shape of a file that is no JSON, by its first line; None where it has none of them."""
    return next((each for each in unread_shapes() if each.line and re.match(each.line, line[:_LOOKED_AT])), None)


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


FORMAT = RecordFormat("unread", "fields of files that contain no sent prompts", fits, read)
