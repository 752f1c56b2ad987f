"""Block traces that kvtool wrote: rows of block ids in columns, those of a conversation as one record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.block_files.block_file import SUFFIX, BlockFacts, block_schema, need_parquet
from kvtool.workload.block_files.block_row import BlockRow
from kvtool.workload.call import NO_CALL, Call
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import RecordFormat
from kvtool.workload.logs.records.record_readings import FoundCall, Reading
from kvtool.workload.turn import HashedPrompt, RequestName, Turn

_ROWS = 1024
"""Rows that are made at a time."""
FIELD = "kvtool_requests"


def records(source: Any, facts: BlockFacts, path: str) -> Iterator[RawRecord]:
    """The conversations of a Parquet file that is open; the number of their first row stands for a line."""
    if not source.schema_arrow.equals(block_schema(need_parquet())):
        raise KvtoolError(
            "a block trace with other columns than kvtool writes",
            hint="make it anew with kvtool trace",
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
    for batch in source.iter_batches(batch_size=_ROWS):
        columns = [_lists(each) if each.type.num_fields else each.to_pylist() for each in batch.columns]
        yield from map(BlockRow._make, zip(*columns, strict=True))


def _lists(column: Any) -> list[list[int] | None]:
    """A column of lists, whose numbers are made some at a time."""
    ids = column.values.to_numpy(zero_copy_only=False).tolist()
    offsets = column.offsets.to_pylist()
    there = column.is_valid().to_pylist()
    return [ids[offsets[at] : offsets[at + 1]] if here else None for at, here in enumerate(there)]


def read(record: Record) -> Reading:
    """The requests of a conversation."""
    size = record.count("block_size", least=1)
    rows = [_checked(record, each, size) for each in record.list_of(FIELD)]
    first = rows[0]
    identity = None if first.call is None else f"{first.call:x}"
    return FoundCall(_Turns(record, rows, size), identity, first.weak)


def _checked(record: Record, cells: list[Any], size: int) -> BlockRow:
    """A row whose lengths go together."""
    row = BlockRow._make(cells)
    if row.status is not None and row.status >= 400:
        return row._replace(input_length=0, hash_ids=[], answer_ids=[])
    if cells[7] is None or cells[9] is None or row.input_length < 1:
        raise record.error("a request without a prompt")
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


FORMATS = (RecordFormat("block-trace", "a file of kvtool trace", lambda fields: FIELD in fields, read),)
