"""One file of a source: its records one after another, each as the requests that it holds."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import bytes_taken, is_plain, open_bytes, refuse_binary
from kvtool.text.files.json_position import line_and_column, nearest_start
from kvtool.text.files.json_stream import NotJSONError, RawRecord, parse, read_records
from kvtool.text.terminal.streams import STDIN
from kvtool.workload.logs.field_names import is_field_name
from kvtool.workload.logs.files.file_kinds import kind_of
from kvtool.workload.logs.formats.token_traces import plain_mooncake, plain_time, time_in_line
from kvtool.workload.logs.records.joined_records import Joins, Key
from kvtool.workload.logs.records.record import RecordError, Where
from kvtool.workload.logs.records.record_format import (
    FileState,
    FoundCall,
    LeftOut,
    RecordFormat,
    Several,
    Turns,
    collected,
)
from kvtool.workload.logs.records.records import dated_calls, opens, outline, read_record
from kvtool.workload.logs.survey import RecordsInOrder, Survey
from kvtool.workload.turn import RequestName, Turn

_MAX_EXCERPT_COLUMN = 2000  # errors farther right in a line are shown without an excerpt
_EXCERPT_TAIL = 120  # characters after the place of an error
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"|$)(\s*+:)?')
_PARKED_STEP = 1 << 14
"""Bytes of lines that are read at a time of a file beside many others."""


@dataclass(slots=True)
class LogEntry:
    """A conversation of a record: its requests, the first of them, the record's JSON value (None: there is none, or nobody asked
    for it), its file, and the record's length in bytes where it is known.

    `before` counts the requests of the record before it, where that holds several conversations. `identity` names the call wherever
    else it is logged; `weak`: it may be the id of something else.
    """

    turns: Turns
    first: Turn
    value: object
    path: str
    size: int = 0
    before: int | None = None
    identity: str | None = None
    weak: bool = False

    @property
    def arrival(self) -> float | None:
        """Return when it arrived, in seconds on the clock of the log."""
        return self.first.arrival


class ReadListener(Protocol):
    """Receives what is no request while a file is read."""

    def found(self, path: str, formats: str) -> None:
        """Receive the formats of a file, when there is another one."""
        ...

    def left_out(self, item: LeftOut, place: Place) -> None: ...


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
    joins: Joins | None = None
    file_name: str = ""
    """What it is called among the files of its source, in short."""
    formats: dict[str, None] = field(default_factory=dict)
    records: int = 0
    """How many were read so far, whatever became of them."""
    _reader: io.BufferedReader | None = None
    _taken: int = 0
    _record_end: int = 0
    _states: dict[str, FileState] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        """Return the bytes up to the record that is in work: what a buffer holds ahead may come long after other files."""
        if self._reader is None:
            return self._taken
        taken = bytes_taken(self._reader)
        return min(taken, self._record_end) if is_plain(self._reader) else taken

    def entries(
        self, told: ReadListener | None = None, order: RecordsInOrder[LogEntry | None] | None = None
    ) -> Iterator[LogEntry | KvtoolError]:
        """Yield its requests, in the order of the file or in another; `told` receives what else there is. Raise KvtoolError."""
        if order is not None:
            yield from self._reordered(order, told)
            return
        with open_bytes(self.file, self.path, parked=self.parked) as reader:
            self._reader = reader
            try:
                yield from self._read(reader, told)
            finally:
                self._taken = bytes_taken(reader)
                self._reader = None

    def survey(self, ids: Callable[[str], None], keys: Callable[[Key, int], None]) -> Survey:
        """Return what an order of its requests needs; `ids` receives the id of each call, `keys` what a record of a number may be
        asked for by. Reading reports what cannot be read."""
        survey = Survey()
        try:
            with open_bytes(self.file, self.path, parked=self.parked) as reader:
                self._reader = reader
                self._survey(reader, survey, ids, keys)
        except KvtoolError:
            pass
        finally:
            self._reader = None
        return survey

    def _survey(
        self,
        reader: io.BufferedReader,
        survey: Survey,
        ids: Callable[[str], None],
        keys: Callable[[Key, int], None],
    ) -> None:
        states: dict[str, FileState] = {}
        usual = False
        for number, raw in enumerate(self.raws(reader)):
            survey.places.add(raw.offset, len(raw.data), raw.line, raw.column)
            survey.places.around = raw.around or survey.places.around
            if raw.problem is not None:
                survey.record({})
                continue
            if usual and (time := time_in_line(raw.data)) is not None:
                survey.timed(time)
                continue
            try:
                value = _value(raw)
                where = Where(self.path, raw.line, raw.column, "", number + 1, self.group, self.block_size, number + 1)
                seen, found, stays = outline(value, where, self.format_, states, raw.around)
            except (NotJSONError, RecordError):
                survey.record({})
                continue
            usual = len(seen) == 1 and plain_time(value) is not None
            survey.in_file_order = survey.in_file_order or stays
            survey.record({at: each.time for at, each in enumerate(seen) if each is not None})
            for each in seen:
                if each is not None and each.identity is not None:
                    ids(each.identity)
            for key in found:
                keys(key, number)
        for state in states.values():
            seen = dated_calls(collected(state.end()))
            survey.record({at: each.time for at, each in enumerate(seen) if each is not None})
            for each in seen:
                if each is not None and each.identity is not None:
                    ids(each.identity)

    def raws(self, reader: io.BufferedReader) -> Iterator[RawRecord]:
        """Return the records of the file, of whatever kind it is. Raises KvtoolError for what is no text."""
        return records_of(reader, self.file, self.path, parked=self.parked)

    def where(self, line: int, column: int, nth: int, number: int) -> Where:
        """Return the place of record `number` (from 1), which is the `nth` of its line."""
        label = str(line) if nth == 1 else f"{line}.{nth}"
        ordinal = next(self.ordinals)
        self.records += 1
        return Where(
            self.path,
            line,
            column,
            label,
            ordinal,
            self.group,
            self.block_size,
            number,
            self.of_many,
            self.joins,
            self.file_name,
        )

    def _read(self, reader: io.BufferedReader, told: ReadListener | None) -> Iterator[LogEntry | KvtoolError]:
        path, group, size = self.path, self.group, self.block_size
        good = line = nth = number = 0
        where = None
        for raw in self.raws(reader):
            nth = nth + 1 if raw.line == line else 1
            line = raw.line
            number += 1
            self._record_end = raw.offset + len(raw.data) + 1  # the end of its line
            if "mooncake" in self.formats and not self.values:
                label = str(line) if nth == 1 else f"{line}.{nth}"
                plain = _plain_trace(raw, path, f"{path}:{label}" if self.of_many else label, group, size)
                if plain is not None:
                    plain.name = RequestName(path, number)
                    good += 1
                    next(self.ordinals)
                    self.records += 1
                    yield LogEntry([plain], plain, None, path, len(raw.data))
                    continue
            where = self.where(line, raw.column, nth, number)
            read = self.read_raw(raw, where, good, told)
            if isinstance(read, KvtoolError):
                if not self.skip:
                    raise read
                yield read
                continue
            good += 1
            yield from self.take_record(read, where, told)
        if where is not None:
            for name, state in self._states.items():
                yield from self.take_record(ReadRecord(name, collected(state.end()), None, 0), where, told)

    def read_raw(self, raw: RawRecord, where: Where, good: int, told: ReadListener | None) -> ReadRecord | KvtoolError:
        """Return the contents of a record, or what is wrong with it, with its place in the file."""
        read = read_raw(raw, where, self.format_, good, self._states)
        if isinstance(read, KvtoolError):
            return read
        if read.format not in self.formats:
            self.formats[read.format] = None
            if told is not None:
                told.found(self.path, ", ".join(self.formats))
        return read

    def take_record(self, read: ReadRecord, where: Where, told: ReadListener | None) -> Iterator[LogEntry]:
        """Yield the requests of a record that was read."""
        yield from self.calls_of(read)
        self.report_left_out(read, where, told)

    def calls_of(self, read: ReadRecord) -> Iterator[LogEntry]:
        """Return each of its conversations."""
        return (entry for entry in self.entries_of(read) if entry is not None)

    def entries_of(self, read: ReadRecord) -> Iterator[LogEntry | None]:
        """Yield the conversation of each item; None where it is something else."""
        several = len(read.items) > 1
        before = 0
        for item in read.items:
            if isinstance(item, LeftOut):
                yield None
                continue
            first = item.turns[0]
            wanted = self.values or first.call.usage is not None
            value = (read.value if item.value is None else item.value) if wanted else None
            yield LogEntry(
                item.turns, first, value, self.path, read.size, before if several else None, item.identity, item.weak
            )
            before += len(item.turns)

    @staticmethod
    def report_left_out(read: ReadRecord, where: Where, told: ReadListener | None) -> None:
        """Tell what else is in a record."""
        for item in read.items:
            if isinstance(item, LeftOut) and told is not None:
                told.left_out(item, Place(where.path, where.line, where.column))

    def _reordered(
        self, order: RecordsInOrder[LogEntry | None], told: ReadListener | None
    ) -> Iterator[LogEntry | KvtoolError]:
        good = 0
        for number, call in order.records():
            made = order.kept(number)
            if made is None:
                raw, nth = order.raw(number)
                where = self.where(raw.line, raw.column, nth, number + 1)
                read = self.read_raw(raw, where, good, told)
                if isinstance(read, KvtoolError):
                    if not self.skip:
                        raise read
                    yield read
                    continue
                good += 1
                made = list(self.entries_of(read))
                order.keep(number, made)
                if order.is_new(number, len(made)):
                    self.report_left_out(read, where, told)
            if call is not None and call < len(made) and (entry := made[call]) is not None:
                yield entry


def _plain_trace(raw: RawRecord, path: str, name: str, group: str, block_size: int) -> Turn | None:
    """Return the turn of a line of a trace that is like most of them, read in a tenth of the time; None: read it with care."""
    if raw.problem is not None or raw.value is not None:
        return None
    try:
        return plain_mooncake(parse(raw.data), (path, raw.line, raw.column), name, group, block_size)
    except NotJSONError:
        return None


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Contents of a record: the name of its format, all that is in it, its JSON value and its bytes."""

    format: str
    items: Several
    value: object
    size: int

    def turns(self) -> Turns:
        """Return the turns of all its conversations, one after another; those of the only one as they are."""
        found = [item.turns for item in self.items if isinstance(item, FoundCall)]
        return found[0] if len(found) == 1 else [turns[at] for turns in found for at in range(len(turns))]


def records_of(reader: io.BufferedReader, file: str, path: str, *, parked: bool = False) -> Iterator[RawRecord]:
    """Return the records of a file of any kind, which lies in `file`. Raises KvtoolError for what is no text and none of these
    kinds."""
    kind = kind_of(reader, path)
    if kind is not None:
        return kind.read(reader, file, path)
    refuse_binary(reader, path)
    return read_records(reader, step=_PARKED_STEP, opens=opens) if parked else read_records(reader, opens=opens)


def _value(raw: RawRecord) -> Any:
    return parse(raw.data) if raw.value is None else raw.value


def read_raw(
    raw: RawRecord,
    where: Where,
    format_: RecordFormat | None,
    good: int,
    states: dict[str, FileState] | None = None,
) -> ReadRecord | KvtoolError:
    """Return the contents of a record, or what is wrong with it, with its place in the file."""
    # What is piped in has no name that says what it is, and a prompt is no log.
    hint = "add --format text if it is a prompt" if where.path == STDIN and not good else None
    so_far = f"{good} {'line' if raw.is_line else 'record'}{'' if good == 1 else 's'} ok"
    text: str | None
    if raw.problem is not None:
        text = raw.data.decode(errors="replace")
        wrong = f"not JSON ({raw.problem})" if raw.value is None else raw.problem
        return _error(f"{wrong}; {so_far}", hint, where, text, 0)
    try:
        value = _value(raw)
        name, items = read_record(value, where, format_, states, raw.around)
        return ReadRecord(name, items, value, len(raw.data))
    except NotJSONError as error:
        text, index = error.text, error.index
        if text is None:
            text, index = raw.data.decode(errors="replace"), len(raw.data[: error.index].decode())
        from kvtool.workload.logs.formats.unread import shape_of_line

        if not good and (shape := shape_of_line(text)) is not None:
            return _error(shape.message, shape.hint, where, text, index)
        return _error(f"not JSON ({error.reason}); {so_far}", hint, where, text, index)
    except RecordError as error:
        text = raw.data.decode(errors="replace")
        index = nearest_start(text, error.pointer) if raw.value is None else 0
        return _error(error.message, error.hint, where, text, index)


def without_texts(excerpt: str) -> str:
    """Return a piece of JSON whose texts, which may be of prompts, are dots; names of known fields stay, and every column."""

    def shown(found: re.Match[str]) -> str:
        if found[2] and is_field_name(found[1]):
            return found[0]
        start, stop = (each - found.start() for each in found.span(1))
        return found[0][:start] + "." * (stop - start) + found[0][stop:]

    return _TEXT.sub(shown, excerpt)


def _error(message: str, hint: str | None, where: Where, text: str, index: int) -> KvtoolError:
    line, column = line_and_column(text, index, where.line, where.column)
    begin = text.rfind("\n", 0, index) + 1
    excerpt = None
    if column <= _MAX_EXCERPT_COLUMN and (begin or where.column == 1):
        end = text.find("\n", index)
        excerpt = (
            without_texts(text[begin : min(end if end >= 0 else len(text), index + _EXCERPT_TAIL)].rstrip("\r")) or None
        )
    return KvtoolError(message, hint=hint or "--on-bad-line skip", place=Place(where.path, line, column, excerpt))
