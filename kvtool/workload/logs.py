"""Logs, traces and prompt files as a workload: any number of files, read as streams, each record in a format of its own."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kvtool.errors import KvtoolError, Place
from kvtool.text import Origin, Traced
from kvtool.workload.compressed import open_bytes, refuse_binary
from kvtool.workload.json_position import character_start, line_and_column, nearest_start, value_start
from kvtool.workload.json_stream import NotJSONError, RawRecord, parse, read_records
from kvtool.workload.plain import PLAIN_GROUP, PLAIN_SUFFIXES, read_prompt
from kvtool.workload.record import Dialogue, RecordError, Where
from kvtool.workload.records import TEXT_FORMAT, RecordFormat, format_named, read_record
from kvtool.workload.turn import Conversation, Message, Output, Recorded, Turn

STDIN = "-"
_LOG_SUFFIXES = {".jsonl", ".ndjson", ".json", ".traj", ".log", ".gz", ".zst", ".txt", ".md"}
_MAX_EXCERPT_COLUMN = 2000
_EXCERPT_TAIL = 120


@dataclass(frozen=True)
class LogOptions:
    """How to read logs. `limit` counts requests; `format` None finds out the format of each record."""

    on_bad_line: Literal["error", "skip"] = "error"
    trace_block_size: int = 512
    limit: int | None = None
    format: str | None = None


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
        self.skipped = 0
        self.formats: dict[str, str] = {}

    def conversations(self) -> Iterator[Conversation]:
        """One conversation per record. Raises KvtoolError on the way for what cannot be read, and if there is nothing at all."""
        self.skipped = 0
        self.formats = {}
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
