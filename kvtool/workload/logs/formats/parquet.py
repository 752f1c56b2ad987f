"""Tables in columns, Parquet and Arrow, read by pyarrow where it is installed: each row is a record.

Rows of a block trace that kvtool wrote are requests; those of a conversation are one record.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, SupportsIndex

from kvtool.errors import INSTALL_PARQUET, KvtoolError, Place
from kvtool.text.files.compressed import is_plain
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.block_files.block_file import SUFFIX, BlockFacts, block_facts, block_schema, need_parquet
from kvtool.workload.block_files.block_row import BlockRow
from kvtool.workload.call import NO_CALL, Call
from kvtool.workload.logs.field_names import fields_shown
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.formats.tables import column_name, holds_prompts, record_of
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import FoundCall, Reading, RecordFormat
from kvtool.workload.turn import HashedPrompt, RequestName, Turn

_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_ROWS = 256
"""Rows that are made at a time."""
_SHOWN = 12  # columns that a message names
_BLOCK_ROWS = 1024
"""Rows that are made at a time."""
FIELD = "kvtool_requests"


def begins(head: bytes, path: str) -> bool:
    """Return whether a file is one of these."""
    if head.startswith((_PARQUET, _ARROW)):
        return True
    return head.startswith(_STREAM) and path.lower().endswith((".arrow", ".feather"))


def records(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """Yield the rows of a file; a row's number stands for its line. KvtoolError where pyarrow is missing, or the file is
    damaged."""
    head = reader.peek(8)[:8]
    what = "a Parquet file" if head.startswith(_PARQUET) else "an Arrow file"
    try:
        arrow = import_module("pyarrow")
    except ImportError:
        raise KvtoolError(f"this is {what}", hint=INSTALL_PARQUET, place=Place(path)) from None
    if not is_plain(reader):
        raise KvtoolError(f"{what} must not be compressed", hint="decompress it first", place=Place(path))
    try:
        if head.startswith(_PARQUET):
            with _mapped(file) as mapped, import_module("pyarrow.parquet").ParquetFile(mapped) as source:
                if (facts := block_facts(source.metadata.metadata, path)) is not None:
                    yield from block_records(source, facts, path)
                    return
        number = 0
        for names, rows in _batches(head, file):
            if not holds_prompts(names):
                raise KvtoolError(
                    f"{what} has no column with prompts: {fields_shown('column', names, _SHOWN)}",
                    hint="name the column `messages`, `prompt`, `request` or `body`",
                    place=Place(path),
                )
            for row in rows:
                number += 1
                yield RawRecord(b"", number, 1, False, value=record_of(names, list(row.values())))
    except (arrow.ArrowException, OSError) as error:
        raise KvtoolError(f"{what} is damaged", hint="check whether the file is complete", place=Place(path)) from error


def _mapped(file: str) -> Any:
    """Return the bytes of a file, whatever its name: pyarrow takes texts for names that are UTF-8."""
    return import_module("pyarrow").memory_map(os.fsencode(file))


def _batches(head: bytes, file: str) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
    """Yield names of the columns and some rows at a time."""
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


def block_records(source: Any, facts: BlockFacts, path: str) -> Iterator[RawRecord]:
    """Yield the conversations of a Parquet file that is open; the number of their first row stands for a line."""
    if not source.schema_arrow.equals(block_schema(need_parquet())):
        raise KvtoolError(
            "the block trace has other columns than kvtool writes",
            hint="make it again with kvtool trace",
            place=Place(path),
        )
    held: list[BlockRow] = []
    number = 0
    for row in _rows(source):
        if row.turn <= 0 and held:
            yield _record(held, facts, number)
            held = []
        held.append(row)
        number += 1
    if held:
        yield _record(held, facts, number)


def _record(rows: list[BlockRow], facts: BlockFacts, number: int) -> RawRecord:
    value = {FIELD: [list(row) for row in rows], "block_size": facts.block_size}
    return RawRecord(b"", number - len(rows) + 1, 1, False, value=value)


def _rows(source: Any) -> Iterator[BlockRow]:
    for batch in source.iter_batches(batch_size=_BLOCK_ROWS):
        columns = [_lists(each) if each.type.num_fields else each.to_pylist() for each in batch.columns]
        yield from map(BlockRow._make, zip(*columns, strict=True))


def _lists(column: Any) -> list[list[int] | None]:
    """Return a column of lists, whose numbers are made some at a time."""
    ids = column.values.to_numpy(zero_copy_only=False).tolist()
    offsets = column.offsets.to_pylist()
    there = column.is_valid().to_pylist()
    return [ids[offsets[at] : offsets[at + 1]] if here else None for at, here in enumerate(there)]


def read(record: Record) -> Reading:
    """Return the requests of a conversation."""
    size = record.count("block_size", least=1)
    rows = [_checked(record, each, size) for each in record.list_of(FIELD)]
    first = rows[0]
    identity = None if first.call is None else f"{first.call:x}"
    return FoundCall(_Turns(record, rows, size), identity, first.weak)


def _checked(record: Record, cells: list[Any], size: int) -> BlockRow:
    """Return a row whose lengths go together."""
    row = BlockRow._make(cells)
    if row.status is not None and row.status >= 400:
        return row._replace(input_length=0, hash_ids=[], answer_ids=[])
    if cells[7] is None or cells[9] is None or row.input_length < 1:
        raise record.error("the request has no prompt")
    tokens, named = row.input_length, len(row.hash_ids)
    if row.answer_ids is None:
        fits = (named - 1) * size < tokens < (named + 1) * size
    else:
        answer = max((row.output_length or 1) - 1, 0)
        fits = named == tokens // size and named + len(row.answer_ids) == (tokens + answer) // size
    if not fits:
        raise record.error(f"a prompt of {tokens} tokens does not fit its {named} blocks of {size}")
    return row


@dataclass(frozen=True, slots=True)
class _Turns:
    """The requests of a conversation, each made when it is asked for."""

    record: Record
    rows: list[BlockRow]
    size: int

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: SupportsIndex, /) -> Turn:
        at = index.__index__()
        row = self.rows[at]
        arrival = None if row.arrival is None or not math.isfinite(row.arrival) else row.arrival
        prompt = HashedPrompt(row.hash_ids, row.input_length, self.size, answer=row.answer_ids)
        where, several = self.record.where, len(self.rows) > 1
        return Turn(
            where.group.removesuffix(SUFFIX),
            hashed=prompt,
            output_tokens=row.output_length,
            session=None if row.session is None else _name(row.session),
            index=at,
            salt=None if row.salt is None else _name(row.salt),
            arrival=arrival,
            id=f"{where.name}:{at}",
            written=(where.path, where.line, where.column),
            name=RequestName(where.path, where.number, at + 1 if several else 0),
            call=NO_CALL if row.status is None else Call(status=row.status),
        )


def _name(hashed: int) -> str:
    return f"{hashed & (1 << 64) - 1:016x}"


FORMAT = RecordFormat("block-trace", "a file of kvtool trace", lambda fields: FIELD in fields, read)
FILE_KINDS = (FileKind("columns", "PAR1 or ARROW1", begins, records),)
