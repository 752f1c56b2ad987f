"""Logs, traces and prompt files as a workload: any number of files, read as streams, each record in a format of its own."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvtool.errors import KvtoolError, Place
from kvtool.results.choices import OnBadLine
from kvtool.text.files.compressed import bytes_taken, open_bytes, refuse_binary
from kvtool.text.files.json_position import character_start, line_and_column, nearest_start, value_start
from kvtool.text.files.json_stream import NotJSONError, RawRecord, parse, read_records
from kvtool.text.message import Message
from kvtool.text.terminal.streams import STDIN
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.plain import PLAIN_GROUP, PLAIN_SUFFIXES, read_prompt
from kvtool.workload.logs.record import Dialogue, RecordError, Turns, Where
from kvtool.workload.logs.records import TEXT_FORMAT, RecordFormat, format_named, read_record
from kvtool.workload.logs.trace_block import TRACE_BLOCK
from kvtool.workload.logs.trace_records import plain_mooncake
from kvtool.workload.turn import Conversation, Output, Recorded, Turn

_LOG_SUFFIXES = {".jsonl", ".ndjson", ".json", ".traj", ".log", ".gz", ".zst", ".txt", ".md"}
_MAX_EXCERPT_COLUMN = 2000
_EXCERPT_TAIL = 120


@dataclass(frozen=True)
class LogOptions:
    """How to read logs. `limit` counts requests; `format` None finds out the format of each record."""

    on_bad_line: OnBadLine = "error"
    trace_block_size: int = TRACE_BLOCK
    limit: int | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How far a pass over logs has come: the share of their bytes, bad records left out, and the formats found in each file."""

    share: float | None
    skipped: int
    formats: dict[str, str]


class LogSource:
    """The requests of log files, in the order of the files and of their records; can be read again and again.

    `skipped` (bad records left out) and `formats` (path to the names of the formats found in it) tell about the last pass.
    `arrival` counts from the earliest first record of the files; it may be negative where a log is not in order.
    """

    def __init__(
        self, paths: Sequence[str], options: LogOptions = LogOptions(), group: Callable[[str], str] | None = None
    ) -> None:
        if options.trace_block_size < 1:
            raise KvtoolError(f"the block size of a trace must be at least 1, not {options.trace_block_size}")
        if options.limit is not None and options.limit < 1:
            raise KvtoolError(f"the number of requests must be at least 1, not {options.limit}")
        self._format = format_named(options.format) if options.format not in (None, TEXT_FORMAT) else None
        self._paths = list(paths)
        self._options = options
        self._group = group
        self._spooled: dict[str, str] = {}
        self._epoch: float | None = None
        self._reader: io.BufferedReader | None = None
        self._read_before = 0
        """Bytes of the files that this pass is done with."""
        self.skipped = 0
        self.formats: dict[str, str] = {}
        self._followed: LogProgress | None = None
        """Of the process that reads the log in this one's place."""

    def conversations(self) -> Iterator[Conversation]:
        """One conversation per record. Raises KvtoolError on the way for what cannot be read, and if there is nothing at all."""
        self.skipped = self._read_before = 0
        self.formats = {}
        self._followed = None
        if self._epoch is None and len(self._paths) > 1:
            self._epoch = min(
                (time for time in map(self._first_arrival, self._paths) if time is not None), default=None
            )
        sessions: dict[str, int] = {}  # how many turns each has had
        first_error: KvtoolError | None = None
        requests = 0
        for found in self._turns():
            if isinstance(found, KvtoolError):
                self.skipped += 1
                first_error = first_error or found
                continue
            count = len(found)
            if self._options.limit is not None:
                count = min(count, self._options.limit - requests)
            requests += count
            first = found[0]
            if self._epoch is None:
                self._epoch = first.arrival
            base = 0
            if first.session is not None:
                base = sessions.get(first.session, 0)
                sessions[first.session] = base + count
            turns = _placed(found, count, base, self._epoch)
            yield Growing(turns) if isinstance(found, Dialogue) else Recorded(turns)
            if requests == self._options.limit:
                return
        if not requests:
            if first_error is not None:
                raise first_error
            named = self._paths[0] if self._paths else "the list of files"
            raise KvtoolError("there is no request in it: the file is empty", place=Place(named))

    def share_read(self) -> float | None:
        """How much of its files this pass has read, by their bytes on the disk; None where that cannot be told yet."""
        if self._followed is not None:
            return self._followed.share
        total = self.bytes_to_read()
        if total is None:
            return None
        taken = self._read_before + (bytes_taken(self._reader) if self._reader is not None else 0)
        return min(taken / total, 1.0) if total else None

    def bytes_to_read(self) -> int | None:
        """Of its files on the disk; None where that cannot be told: what is piped in has not been read yet."""
        try:
            found = [Path(self._spooled.get(path, path)).stat() for path in self._paths]
        except (OSError, ValueError):
            return None
        return sum(each.st_size for each in found) if all(stat.S_ISREG(each.st_mode) for each in found) else None

    def progress(self) -> LogProgress:
        """How far this pass has come."""
        return LogProgress(self.share_read(), self.skipped, dict(self.formats))

    def follow(self, progress: LogProgress) -> None:
        """Tell of a pass that another process makes over the same logs as of this one's own."""
        self._followed = progress
        self.skipped, self.formats = progress.skipped, progress.formats

    def _turns(self) -> Iterator[Turns | KvtoolError]:
        """The turns of each record of each file; the error of each one that is skipped."""
        ordinal = 0
        for path in self._paths:
            if self._is_plain(path):
                self.formats[path] = TEXT_FORMAT
                yield [read_prompt(self._file(path), path, self._group(path) if self._group else PLAIN_GROUP)]
                continue
            for found in self._records(path, ordinal):
                ordinal += 1
                yield found

    def _records(self, path: str, ordinal: int) -> Iterator[Turns | KvtoolError]:
        group = self._group(path) if self._group else default_group(path)
        names: dict[str, None] = {}
        good = line = nth = number = 0
        size = self._options.trace_block_size
        with open_bytes(self._file(path), path) as reader:
            self._reader = reader
            refuse_binary(reader, path)
            for raw in read_records(reader):
                nth = nth + 1 if raw.line == line else 1
                line = raw.line
                ordinal += 1
                number += 1
                label = str(line) if nth == 1 else f"{line}.{nth}"
                if "mooncake" in names and (plain := _plain_trace(raw, path, label, group, size)) is not None:
                    good += 1
                    yield plain
                    continue
                where = Where(path, line, raw.column, label, ordinal, group, size, number)
                found = read_raw(raw, where, self._format, good)
                if isinstance(found, KvtoolError):
                    if self._options.on_bad_line == "error":
                        raise found
                    yield found
                    continue
                good += 1
                name, turns = found
                if name not in names:
                    names[name] = None
                    self.formats[path] = ", ".join(names)
                yield turns
            self._read_before += bytes_taken(reader)
        self._reader = None

    def _first_arrival(self, path: str) -> float | None:
        """The time of the first good record of a log; problems are for the pass itself to tell."""
        if self._is_plain(path):
            return None
        try:
            for found in self._records(path, 0):
                if not isinstance(found, KvtoolError):
                    return found[0].arrival
        except KvtoolError:
            pass
        return None

    def _is_plain(self, path: str) -> bool:
        name = path.lower().removesuffix(".gz").removesuffix(".zst")
        return self._options.format == TEXT_FORMAT or (self._options.format is None and name.endswith(PLAIN_SUFFIXES))

    def _file(self, path: str) -> str:
        """The path to read: for what can be read only once (stdin, a pipe), a temporary file with all of it."""
        if path in self._spooled:
            return self._spooled[path]
        if path != STDIN:
            try:
                once = not (stat.S_ISREG(mode := Path(path).stat().st_mode) or stat.S_ISDIR(mode))
            except (OSError, ValueError):
                once = False  # opening it tells what is wrong
            if not once:
                return path
        with tempfile.NamedTemporaryFile(prefix="kvtool-", delete=False) as copy:
            weakref.finalize(self, _remove, copy.name)
            try:
                if path == STDIN:
                    if sys.stdin is None or sys.stdin.closed:
                        raise KvtoolError("standard input is closed", place=Place(path))
                    shutil.copyfileobj(sys.stdin.buffer, copy)
                else:
                    with Path(path).open("rb") as pipe:
                        shutil.copyfileobj(pipe, copy)
            except OSError as error:
                raise KvtoolError(f"cannot read: {error.strerror or error}", place=Place(path)) from error
        self._spooled[path] = copy.name
        return copy.name


class Growing:
    """A dialogue of which only the user's side is known: each turn is sent with all before it and the engine's own answers."""

    def __init__(self, turns: Iterator[Turn]) -> None:
        self._turns = turns
        self._history: list[Message] = []

    def rest(self) -> list[Turn]:
        """The turns that have not been asked for, each with what its user says."""
        return list(self._turns)

    def next_turn(self, previous: Output | None) -> Turn | None:
        """The next turn, after `previous` has been added as the answer to the last one."""
        turn = next(self._turns, None)
        if turn is None:
            return None
        if previous is not None:
            self._history.append({"role": "assistant", "content": Traced(previous.text)})
            turn.name = turn.name and turn.name._replace(known=False)
        self._history += turn.messages or []
        turn.messages = list(self._history)
        return turn


def default_group(path: str) -> str:
    """The name of the file without the suffixes that say what is in it."""
    if path == STDIN:
        return "stdin"
    name = Path(path).name
    while (suffix := Path(name).suffix.lower()) in _LOG_SUFFIXES:
        name = name[: -len(suffix)]
    return name


def locate(origin: Origin, offset: int) -> tuple[int, int]:
    """Line and column in the file of character `offset` of the origin's text, however it is escaped there.

    Reads the file again. Where it is gone or changed (or was stdin), the answer is the place of the record.
    """
    if origin.verbatim or not origin.pointer:
        return origin.position(offset)
    try:
        with open_bytes(origin.path) as reader:
            for raw in read_records(reader):
                if (raw.line, raw.column) == (origin.line, origin.column):
                    text = raw.data.decode()
                    index = character_start(text, value_start(text, origin.pointer), offset)
                    return line_and_column(text, index, raw.line, raw.column)
                if raw.line > origin.line:
                    break
    except (KvtoolError, LookupError, ValueError, RecursionError):
        pass
    return origin.line, origin.column


def _placed(turns: Turns, count: int, base: int, epoch: float | None) -> Iterator[Turn]:
    """The turns with their places in the session and their times from the start of the source."""
    for index in range(count):
        turn = turns[index]
        turn.index = base + index
        if turn.arrival is not None:
            turn.arrival -= epoch or 0.0
        yield turn


def _plain_trace(raw: RawRecord, path: str, label: str, group: str, block_size: int) -> list[Turn] | None:
    """The turn of a line of a trace that is like most of them, read in a tenth of the time; None: read it with care."""
    if raw.problem is not None:
        return None
    try:
        turn = plain_mooncake(parse(raw.data), (path, raw.line, raw.column), label, group, block_size)
    except NotJSONError:
        return None
    return None if turn is None else [turn]


def read_raw(raw: RawRecord, where: Where, format_: RecordFormat | None, good: int) -> tuple[str, Turns] | KvtoolError:
    """Format and turns of a record, or what is wrong with it, with its place in the file."""
    # What is piped in has no name that says what it is, and a prompt is no log.
    hint = "--format text, if it is a prompt" if where.path == STDIN and not good else None
    so_far = f"{good} {'line' if raw.is_line else 'record'}{'' if good == 1 else 's'} ok"
    text: str | None
    if raw.problem is not None:
        text = raw.data.decode(errors="replace")
        return _error(f"not JSON ({raw.problem}); {so_far}", hint, where, text, 0)
    try:
        return read_record(parse(raw.data), where, format_)
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


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 # a Path would be one more thing that must still work at exit
