"""One file of a source: its records one after another, each as the requests that it holds."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import bytes_taken, open_bytes, refuse_binary
from kvtool.text.files.json_position import line_and_column, nearest_start
from kvtool.text.files.json_stream import NotJSONError, RawRecord, parse, read_records
from kvtool.text.terminal.streams import STDIN
from kvtool.workload.logs.record import RecordError, Turns, Where
from kvtool.workload.logs.records import RecordFormat, read_record
from kvtool.workload.logs.trace_records import plain_mooncake
from kvtool.workload.turn import RequestName, Turn

_MAX_EXCERPT_COLUMN = 2000
_EXCERPT_TAIL = 120
_PARKED_STEP = 1 << 14
"""Bytes of lines that are read at a time of a file beside many others."""


@dataclass(slots=True)
class LogEntry:
    """A record: its requests, the first of them, its JSON value (None: there is none, or nobody asked for it), its file, and its
    length in bytes where it is known."""

    turns: Turns
    first: Turn
    value: object
    path: str
    size: int = 0

    @property
    def arrival(self) -> float | None:
        """When it arrived, in seconds on the clock of the log."""
        return self.first.arrival


@dataclass(slots=True, eq=False)
class LogFile:
    """A log and how it is read. `file` is where its bytes lie; `ordinals` number the records of the source.

    `values`: each record's JSON value is wanted; `parked`: it is one of many. `formats` and `taken` (bytes of the file itself) tell
    how far it was read.
    """

    path: str
    file: str
    group: str
    block_size: int
    format_: RecordFormat | None
    ordinals: Iterator[int]
    of_many: bool = False
    values: bool = False
    parked: bool = False
    skip: bool = False
    """Whether a record that cannot be read is given as its error, and not raised."""
    formats: dict[str, None] = field(default_factory=dict)
    _reader: io.BufferedReader | None = None
    _taken: int = 0

    @property
    def taken(self) -> int:
        return self._taken if self._reader is None else bytes_taken(self._reader)

    def entries(self, *, found: Callable[[str], None] = lambda _: None) -> Iterator[LogEntry | KvtoolError]:
        """Its records in their order; `found` is told each format when it comes first. Raises KvtoolError."""
        with open_bytes(self.file, self.path, parked=self.parked) as reader:
            self._reader = reader
            try:
                refuse_binary(reader, self.path)
                yield from self._read(reader, found)
            finally:
                self._taken = bytes_taken(reader)
                self._reader = None

    def _read(self, reader: io.BufferedReader, found: Callable[[str], None]) -> Iterator[LogEntry | KvtoolError]:
        path, group, size = self.path, self.group, self.block_size
        good = line = nth = number = 0
        for raw in read_records(reader, step=_PARKED_STEP) if self.parked else read_records(reader):
            nth = nth + 1 if raw.line == line else 1
            line = raw.line
            number += 1
            ordinal = next(self.ordinals)
            label = str(line) if nth == 1 else f"{line}.{nth}"
            if "mooncake" in self.formats and not self.values:
                plain = _plain_trace(raw, path, f"{path}:{label}" if self.of_many else label, group, size)
                if plain is not None:
                    plain.name = RequestName(path, number)
                    good += 1
                    yield LogEntry([plain], plain, None, path, len(raw.data))
                    continue
            where = Where(path, line, raw.column, label, ordinal, group, size, number, self.of_many)
            read = read_raw(raw, where, self.format_, good)
            if isinstance(read, KvtoolError):
                if not self.skip:
                    raise read
                yield read
                continue
            good += 1
            name, turns, value = read
            if name not in self.formats:
                self.formats[name] = None
                found(", ".join(self.formats))
            yield LogEntry(turns, turns[0], value if self.values else None, path, len(raw.data))


def _plain_trace(raw: RawRecord, path: str, name: str, group: str, block_size: int) -> Turn | None:
    """The turn of a line of a trace that is like most of them, read in a tenth of the time; None: read it with care."""
    if raw.problem is not None:
        return None
    try:
        return plain_mooncake(parse(raw.data), (path, raw.line, raw.column), name, group, block_size)
    except NotJSONError:
        return None


def read_raw(
    raw: RawRecord, where: Where, format_: RecordFormat | None, good: int
) -> tuple[str, Turns, object] | KvtoolError:
    """Format, turns and JSON value of a record, or what is wrong with it, with its place in the file."""
    # What is piped in has no name that says what it is, and a prompt is no log.
    hint = "--format text, if it is a prompt" if where.path == STDIN and not good else None
    so_far = f"{good} {'line' if raw.is_line else 'record'}{'' if good == 1 else 's'} ok"
    text: str | None
    if raw.problem is not None:
        text = raw.data.decode(errors="replace")
        return _error(f"not JSON ({raw.problem}); {so_far}", hint, where, text, 0)
    try:
        value = parse(raw.data)
        return (*read_record(value, where, format_), value)
    except NotJSONError as error:
        text, index = error.text, error.index
        if text is None:
            text, index = raw.data.decode(errors="replace"), len(raw.data[: error.index].decode())
        return _error(f"not JSON ({error.reason}); {so_far}", hint, where, text, index)
    except RecordError as error:
        text = raw.data.decode(errors="replace")
        return _error(error.message, error.hint, where, text, nearest_start(text, error.pointer))


def _error(message: str, hint: str | None, where: Where, text: str, index: int) -> KvtoolError:
    line, column = line_and_column(text, index, where.line, where.column)
    begin = text.rfind("\n", 0, index) + 1
    excerpt = None
    if column <= _MAX_EXCERPT_COLUMN and (begin or where.column == 1):
        end = text.find("\n", index)
        excerpt = text[begin : min(end if end >= 0 else len(text), index + _EXCERPT_TAIL)].rstrip("\r")
    return KvtoolError(message, hint=hint or "--on-bad-line skip", place=Place(where.path, line, column, excerpt))
