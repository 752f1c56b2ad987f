"""Tables in columns, Parquet and Arrow, read by pyarrow where that is installed: each row is a record."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from kvtool.errors import INSTALL_PARQUET, KvtoolError, Place
from kvtool.text.files.compressed import is_plain
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.block_files.block_file import block_facts
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.formats import block_traces
from kvtool.workload.logs.formats.tables import column_name, holds_prompts, record_of

_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_ROWS = 256
"""Rows that are made at a time."""
_SHOWN = 12


def begins(head: bytes, path: str) -> bool:
    """Whether a file is one of these."""
    if head.startswith((_PARQUET, _ARROW)):
        return True
    return head.startswith(_STREAM) and path.lower().endswith((".arrow", ".feather"))


def records(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """The rows of a file; a row's number stands for its line. KvtoolError where pyarrow is missing, or the file is damaged."""
    head = reader.peek(8)[:8]
    what = "a Parquet file" if head.startswith(_PARQUET) else "an Arrow file"
    try:
        arrow = import_module("pyarrow")
    except ImportError:
        raise KvtoolError(f"this is {what}", hint=INSTALL_PARQUET, place=Place(path)) from None
    if not is_plain(reader):
        raise KvtoolError(f"{what} that is compressed as a whole", hint="decompress it first", place=Place(path))
    try:
        if head.startswith(_PARQUET):
            with _mapped(file) as mapped, import_module("pyarrow.parquet").ParquetFile(mapped) as source:
                if (facts := block_facts(source.metadata.metadata, path)) is not None:
                    yield from block_traces.records(source, facts, path)
                    return
        number = 0
        for names, rows in _batches(head, file):
            if not holds_prompts(names):
                raise KvtoolError(
                    f"{what} without a column that holds prompts: {fields_shown('column', names, _SHOWN)}",
                    hint="prompts stand in a column `messages`, `prompt`, `request` or `body`",
                    place=Place(path),
                )
            for row in rows:
                number += 1
                yield RawRecord(b"", number, 1, False, value=record_of(names, list(row.values())))
    except (arrow.ArrowException, OSError) as error:
        raise KvtoolError(f"{what} that is damaged", hint="is it whole?", place=Place(path)) from error


def _mapped(file: str) -> Any:
    """The bytes of a file, whatever its name: pyarrow takes texts for names that are UTF-8."""
    return import_module("pyarrow").memory_map(os.fsencode(file))


def _batches(head: bytes, file: str) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
    """Names of the columns and some rows at a time."""
    if head.startswith(_PARQUET):
        with _mapped(file) as mapped, import_module("pyarrow.parquet").ParquetFile(mapped) as source:
            for batch in source.iter_batches(batch_size=_ROWS):
                yield _names(batch), batch.to_pylist()
        return
    ipc = import_module("pyarrow.ipc")
    with _mapped(file) as mapped:
        opened = ipc.open_file(mapped) if head.startswith(_ARROW) else ipc.open_stream(mapped)
        count = opened.num_record_batches if head.startswith(_ARROW) else None
        for batch in (opened.get_batch(at) for at in range(count)) if count is not None else opened:
            for start in range(0, batch.num_rows, _ROWS):
                part = batch.slice(start, _ROWS)
                yield _names(part), part.to_pylist()


def _names(batch: Any) -> list[str]:
    return [column_name(name) for name in batch.schema.names]


FILE_KINDS = (FileKind("columns", "PAR1 or ARROW1", begins, records),)
