"""Logs, traces and prompt files as a workload: any number of files, read as streams, each record in a format of its own."""

from __future__ import annotations

import itertools
import stat
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from kvtool.errors import KvtoolError, Place
from kvtool.results.choices import OnBadLine
from kvtool.text.files.compressed import open_bytes
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.streams import STDIN
from kvtool.workload.logs import TRACE_BLOCK
from kvtool.workload.logs.files.plain_text_files import TEXT_FORMAT
from kvtool.workload.logs.groups.session_names import session_names
from kvtool.workload.logs.log_pass import (
    LeftOuts,
    LogOutcome,
    LogProgress,
    PassState,
    PromptCounts,
    TimedLog,
    by_arrival,
)
from kvtool.workload.logs.placed_turns import Growing, default_group, of_tenant, placed_turns, scoped
from kvtool.workload.logs.records.record import FIRST_DATE, Dialogue
from kvtool.workload.logs.source_files import RecordNames, SourceFiles
from kvtool.workload.request_fields import engine_requests, without_billing_header
from kvtool.workload.turn import Conversation, Recorded, Turn

if TYPE_CHECKING:
    from kvtool.workload.logs.files.input_files import InputFiles
    from kvtool.workload.logs.files.log_file import LogEntry, LogFile
    from kvtool.workload.logs.groups.grouping import Grouping, TenantField
    from kvtool.workload.logs.source_survey import SourceSurvey

MEMORY_FORMAT = "values"
"""Of prompts that a program holds."""
_MOST_GROUPS = 12
_HEAD = 1 << 16
"""Groups that an error names."""
_MOST_IDS = 1_000_000
"""Ids of requests that are remembered to see whether another file has them, too."""

_ROUNDING = 0.001
"""Seconds by which times may differ that are counted from another moment."""
_MOST_KEPT = 1 << 24
"""Bytes of files whose requests are kept between passes."""


@dataclass(frozen=True)
class LogOptions:
    """How to read logs. `limit` counts requests; `format` None finds out the format of each record."""

    on_bad_line: OnBadLine = "error"
    trace_block_size: int = TRACE_BLOCK
    limit: int | None = None
    format: str | None = None
    tenant: str | None = None
    """The field of a record that says whose request it is; None: what its format says."""
    groups: tuple[str, ...] = ()
    """Only the requests of these groups; empty: all."""
    by_time: bool = True
    """Whether records are put in the order of time and joined, for which all of them are looked at first."""


class LogSource:
    """The requests of log files; can be read again and again.

    Logs all of which have times are one stream in the order of arrival; others come one after another. A file all of whose
    requests have times is read in their order, others as they are written. `skipped` (bad records left out) and `formats` (path
    to the names of the formats found in it) tell about the last pass. `arrival` counts from the earliest record of the files.
    """

    def __init__(
        self,
        files: Sequence[str] | InputFiles,
        options: LogOptions = LogOptions(),
        group: Callable[[str], str] | None = None,
        *,
        grouping: Grouping | None = None,
        keep_going: bool = False,
        apart: RecordNames | None = None,
    ) -> None:
        """Take the files. `group` names the group of a file, which `grouping` divides further, or otherwise (None: by file);
        `keep_going`: a file that cannot be read does not hide the others; `apart`: there are more files, which are read by
        others."""
        from kvtool.workload.logs.files.input_files import InputFiles
        from kvtool.workload.logs.groups.grouping import BY_FILE
        from kvtool.workload.logs.records.mapped_records import requested_format

        if options.trace_block_size < 1:
            raise KvtoolError(f"the block size of a trace must be at least 1, not {options.trace_block_size}")
        if options.limit is not None and options.limit < 1:
            raise KvtoolError(f"the number of requests must be at least 1, not {options.limit}")
        format_ = requested_format(options.format)
        self.files = files if isinstance(files, InputFiles) else InputFiles(tuple(files))
        self._paths = self.files.paths
        self.options = options
        self._grouping = grouping or BY_FILE
        self._keep_going = keep_going and len(self._paths) > 1
        self._epoch: float | None = None
        self._contents = SourceFiles(
            self._paths,
            apart or RecordNames(session_names(self._paths)),
            group,
            format_,
            None if options.format is None else options.format == TEXT_FORMAT,
            options.trace_block_size,
            skip=options.on_bad_line != "error",
            whole=options.by_time,
        )
        self._open: set[LogFile] = set()
        self._read_before = 0
        """Bytes of the files that this pass is done with."""
        self._size: int | None = None
        self.skipped = 0
        self.formats: dict[str, str] = {}
        self._new_formats: dict[str, str] = {}
        self._now = PassState(self._grouping.begin())
        self._kept: tuple[Hashable, list[tuple[str | None, list[Turn]]]] | None = None
        """How a small log was read, and the requests of its records, each with the id of its call."""
        self._reads_kept = False
        """Whether the pass takes these, so that no bytes say how far it is."""
        self._outcome: LogOutcome | None = None
        """Of the last pass that came to its end."""
        self._followed: LogProgress | None = None
        """Of the process that reads the log in this one's place."""
        self.drops_billing_header = False
        """Whether prompts are read without the header that servers leave out, and `each_answer` whether a request for several
        answers is as many requests, as it is to an engine."""
        self.each_answer = False
        self.scope_of: Callable[[Turn], str | None] | None = None
        """Returns the cache of its own that a request has in an engine, as another model's has; None for the cache of all."""
        self.is_asked: Callable[[Turn], bool] | None = None
        """Returns whether a request is one of those that are asked about; None: all are. `others` are the rest of the last pass, by
        the model that they name."""
        self.others: Counter[str] = Counter()
        self.hear: Callable[[Turn], None] | None = None
        """Who hears of calls whose prompt is not in the log, from the next pass on; else they are left out."""

    def of_files(self, paths: Sequence[str]) -> LogSource:
        """Return a source of other files that is read in the same way: those of the same numbers count as the same files."""
        names = dict(zip(paths, self._paths, strict=True))
        group = self._contents.group
        source = LogSource(
            paths,
            self.options,
            (lambda path: default_group(names[path])) if group is None else (lambda path: group(names[path])),
            grouping=self._grouping,
        )
        source.drops_billing_header, source.each_answer, source.scope_of = (
            self.drops_billing_header,
            self.each_answer,
            self.scope_of,
        )
        return source

    def regrouped(self, grouping: Grouping) -> None:
        """Divide the requests in another way, from the next pass on."""
        self._grouping, self._outcome = grouping, None

    def conversations(self) -> Iterator[Conversation]:
        """Return one conversation per record. Raises KvtoolError on the way for what cannot be read, and if there is nothing at
        all. The requests of a small log are the same objects in each pass: it is read once."""
        return (conversation for _, conversation in self.identified())

    def identified(self) -> Iterator[tuple[str | None, Conversation]]:
        """Return the same, each with the id of its call."""
        read_as = self._grouping, self.drops_billing_header, self.each_answer, self.scope_of, self.is_asked
        if self._kept is not None and self._kept[0] == read_as and self.hear is None:
            self._reads_kept = True
            return ((identity, Recorded(iter(turns))) for identity, turns in self._kept[1])
        return self._keeping(read_as) if self._is_small() else ((each.identity, of) for each, of in self.calls())

    def _keeping(self, read_as: Hashable) -> Iterator[tuple[str | None, Conversation]]:
        """Yield the conversations of a pass, and keep their requests once it ended, where no answer changes them."""
        kept: list[tuple[str | None, list[Turn]]] = []
        known = True
        for entry, conversation in self.calls():
            if isinstance(conversation, Recorded):
                turns = list(conversation.turns)
                kept.append((entry.identity, turns))
                yield entry.identity, Recorded(iter(turns))
            else:
                known = False
                yield entry.identity, conversation
        if known:
            self._kept = read_as, kept

    def _is_small(self) -> bool:
        """Return whether its requests may be kept in memory: a pass that others hear of is read again."""
        packed = any(path.endswith((".gz", ".zst")) or path == STDIN for path in self._paths)
        size = None if packed or self.hear is not None else self.bytes_to_read()
        return size is not None and size <= _MOST_KEPT

    def calls(self) -> Iterator[tuple[LogEntry, Conversation]]:
        """Yield the same, each with what it was made of."""
        state = self._begin()
        ids: dict[int, str] = {}
        sessions: dict[str, int] = {}  # how many turns each has had
        first_error: KvtoolError | None = None
        requests = 0
        others: set[str] = set()
        tenants = state.tenants
        for found in self._in_order(state, values=self._grouping.values or tenants is not None):
            if isinstance(found, KvtoolError):
                self.skipped += 1
                first_error = first_error or found
                continue
            turns, first = found.turns, found.first
            if self.is_asked is not None and not self.is_asked(first):
                self.others[first.call.model or ""] += len(turns)
                continue
            group = state.division.group_of(found)
            if self.options.groups and group not in self.options.groups:
                others.add(group)
                continue
            count = len(turns)
            if self.options.limit is not None:
                count = min(count, self.options.limit - requests)
            requests += count
            if self._epoch is None:
                self._epoch = first.arrival
            base = 0
            if first.session is not None:
                base = sessions.get(first.session, 0)
                sessions[first.session] = base + count
            own = found.path if len(self._paths) > 1 and self._is_double(found, ids, state) else None
            placed = placed_turns(found, count, base, self._epoch, group, own, state.prompts)
            if tenants is not None:
                placed = of_tenant(tenants.tenant_of(found.value), placed)
            if self.scope_of is not None:
                placed = scoped(placed, self.scope_of)
            yield found, Growing(placed) if isinstance(turns, Dialogue) else Recorded(self._as_served(placed))
            if requests == self.options.limit:
                break
        self._outcome = state.outcome(self._order())
        if tenants is not None and requests:
            tenants.check()
        if not requests:
            self._check_found(state, others, first_error)

    def _check_found(self, state: PassState, others: set[str], first_error: KvtoolError | None) -> None:
        """Raise why a pass found no request. `others` are groups that were left out."""
        if others:
            raise _no_group(self.options.groups, others)
        if state.left_out.heard or self.others:
            return
        first_error = first_error or next(iter(state.failed.values()), None)
        if first_error is not None:
            raise first_error
        named = self._paths[0] if self._paths else "the list of files"
        if state.left_out.counts:
            there = f"it contains no model request; {state.left_out.notes()[0]}"
            raise KvtoolError(there, hint=state.left_out.hint, place=Place(named))
        if state.records or (self.bytes_to_read() and not self._is_blank()):
            raise KvtoolError("it contains no model request", place=Place(named))
        raise KvtoolError("the file is empty", place=Place(named))

    def _is_blank(self) -> bool:
        """Return whether its files begin with nothing but white space."""
        for path in self._paths:
            with open_bytes(path, path) as reader:
                if reader.read(_HEAD).strip():
                    return False
        return True

    def _as_served(self, turns: Iterator[Turn]) -> Iterator[Turn]:
        """Return the engine's requests for calls that do not depend on its answers."""
        turns = without_billing_header(turns) if self.drops_billing_header else turns
        return engine_requests(turns) if self.each_answer else turns

    def entries(self) -> Iterator[LogEntry | KvtoolError]:
        """Yield the records in the order of the source, each with its place and its JSON value; the error of each one that is
        skipped."""
        yield from self._in_order(self._begin(), values=True)

    def _begin(self) -> PassState:
        """Begin another pass."""
        self.skipped = self._read_before = 0
        self.others = Counter()
        self._reads_kept = False
        self.formats = {}
        self._new_formats = {}
        self._followed = None
        self._open = set()
        self._now = PassState(self._grouping.begin(), LeftOuts(hear=self.hear), tenants=self._tenants())
        return self._now

    def _tenants(self) -> TenantField | None:
        if self.options.tenant is None:
            return None
        from kvtool.workload.logs.groups.grouping import TenantField

        return TenantField(self.options.tenant)

    @property
    def epoch(self) -> float:
        """Return the time that arrivals count from, in seconds on the clock of the logs."""
        return self._epoch or 0.0

    @property
    def format_names(self) -> list[str]:
        """Return the formats of its logs, each once; none of files that are prompts."""
        found = dict.fromkeys(name for names in self.formats.values() for name in names.split(", "))
        return [name for name in found if name not in (TEXT_FORMAT, MEMORY_FORMAT)]

    @property
    def left_out(self) -> LeftOuts:
        """Return what the last pass, or this one so far, found beside requests."""
        return self._now.left_out

    @property
    def prompts(self) -> PromptCounts:
        """Return what the log does not contain of the prompts of this pass."""
        return self._now.prompts

    @property
    def records(self) -> int:
        """Return the number of records of this pass so far, with those that cannot be read."""
        return self._now.records

    @property
    def repeated(self) -> int:
        """Return the number of calls of this pass that were logged before."""
        return self._now.repeated

    def share_read(self) -> float | None:
        """Return how much of its files this pass has read, by their bytes on the disk; None where that is not known yet."""
        if self._followed is not None:
            return self._followed.share
        total = None if self._reads_kept else self.bytes_to_read()
        if total is None:
            return None
        taken = self._read_before + sum(each.taken for each in self._open)
        return min(taken / total, 1.0) if total else None

    def bytes_to_read(self) -> int | None:
        """Return the bytes of its files on the disk; None where they are not known: a pipe was not read yet."""
        if self._size is None:
            try:
                found = [self._contents.status(path) for path in self._paths]
            except (OSError, ValueError):
                return None
            if all(stat.S_ISREG(each.st_mode) for each in found):
                self._size = sum(each.st_size for each in found)
        return self._size

    def progress(self, *, at_end: bool = False) -> LogProgress:
        """Return how far this pass has come; `at_end` with all that is to be told of it."""
        formats, self._new_formats = self._new_formats, {}
        return LogProgress(self.share_read(), self.skipped, formats, self.outcome if at_end else None)

    def follow(self, progress: LogProgress) -> None:
        """Tell of a pass that another process makes over the same logs as of this one's own."""
        if self._followed is None:
            self.formats = {}
        self._followed = progress
        self.skipped = progress.skipped
        self.formats |= progress.formats
        if progress.outcome is not None:
            self._outcome = progress.outcome

    @property
    def merged(self) -> bool:
        """Return whether its files are one stream in the order of arrival."""
        return len(self._paths) > 1 and None not in self._contents.survey().firsts

    @property
    def lateness(self) -> float | None:
        """Return by how many seconds a request can come after later ones; None where some time or order is not known. A merge makes
        none later than it is in its own file."""
        if len(self._paths) > 1 and not self.merged:
            return None
        survey = self._contents.survey()
        known = [each for each in survey.lateness if each is not None]
        return None if survey.joins or len(known) < len(self._paths) else max(known, default=0.0) + _ROUNDING

    def check_clock(self) -> None:
        """Raise KvtoolError where some files have dates and others count from their start: nobody knows what came before what."""
        if not self.merged:
            return
        clocks: dict[bool, Place] = {}
        for path, last in zip(self._paths, self._contents.survey().lasts, strict=True):
            if last is not None:
                clocks.setdefault(last[0] >= FIRST_DATE, Place(path, last[1]))
        if len(clocks) > 1:
            raise KvtoolError(
                f"this file has dates, but {clocks[False]} has relative times",
                hint="pass files with one kind of times",
                place=clocks[True],
            )

    @property
    def outcome(self) -> LogOutcome:
        """Return the outcome of the last pass that ended; where none did, of this one so far."""
        return self._outcome or self._now.outcome(self._order())

    def _order(self) -> str | None:
        """Return how it goes through several files."""
        if len(self._paths) < 2:
            return None
        files = plural(len(self._paths), "file")
        untimed = [
            path for path, first in zip(self._paths, self._contents.survey().firsts, strict=True) if first is None
        ]
        if not untimed:
            return f"{files}, as one stream by arrival"
        if len(untimed) == len(self._paths):
            return f"{files} without arrival times, one after another"
        return f"{files}, one after another: {untimed[0]} has no arrival times" + (
            f", and {len(untimed) - 1:,} others have none" if len(untimed) > 1 else ""
        )

    def _in_order(self, state: PassState, *, values: bool) -> Iterator[LogEntry | KvtoolError]:
        from kvtool.workload.logs.records.retries import RETRY, Retries
        from kvtool.workload.logs.source_survey import Repeated

        survey = self._contents.survey()
        repeated, retries = Repeated(survey.doubles), Retries()
        for found in self._as_they_come(survey, state, values=values):
            if not isinstance(found, KvtoolError) and repeated.has(found):
                state.repeated += len(found.turns)
                continue
            if not isinstance(found, KvtoolError) and len(found.turns) == 1 and retries.has(found.first):
                state.left_out.add(RETRY, found.first.place or Place(found.path))
                continue
            yield found

    def _as_they_come(
        self, survey: SourceSurvey, state: PassState, *, values: bool
    ) -> Iterator[LogEntry | KvtoolError]:
        from kvtool.workload.logs.source_survey import UNREADABLE

        counter = itertools.count(self._contents.names.first_record)
        if len(self._paths) > 1 and self._epoch is None:
            self._epoch = min((time for time in survey.firsts if time is not None and time != UNREADABLE), default=None)
        if self.merged:
            logs = [
                TimedLog(first, partial(self._file_entries, number, counter, state, values=values))
                for number, first in enumerate(survey.firsts)
                if first is not None
            ]
            yield from by_arrival(logs, state.arrivals)
            return
        for number in range(len(self._paths)):
            yield from self._file_entries(number, counter, state, values=values)

    def _file_entries(
        self, number: int, ordinals: Iterator[int], state: PassState, *, values: bool
    ) -> Iterator[LogEntry | KvtoolError]:
        """Yield the records of a file; an error ends it, and is kept or raised."""
        from kvtool.workload.logs.files.log_file import LogEntry

        path = self._paths[number]
        try:
            if self._contents.is_prompt(path):
                self._found(path, TEXT_FORMAT)
                turn = self._contents.prompt(path)
                state.records += 1
                yield LogEntry([turn], turn, None, path)
                return
            log = self._contents.opener(path, ordinals, values=values)()
            self._open.add(log)
            survey = self._contents.survey()
            log.joins = survey.joins
            order = survey.order_of(number)
            if order is not None and order.order.late:
                state.sorted[path] = order.order
            try:
                yield from log.entries(_PassListener(self._found, state), order)
            finally:
                self._open.discard(log)
                state.records += log.records
                self._read_before += log.taken if order is None else self._contents.size(path)
        except KvtoolError as error:
            if not self._keep_going:
                raise
            state.failed[path] = error

    def _found(self, path: str, formats: str) -> None:
        self.formats[path] = self._new_formats[path] = formats

    @staticmethod
    def _is_double(entry: LogEntry, ids: dict[int, str], state: PassState) -> bool:
        """Return whether a record of another file had this id."""
        key = int.from_bytes(blake2b(entry.first.id.encode(errors="replace"), digest_size=8).digest())
        if len(ids) >= _MOST_IDS and key not in ids:
            return False
        double = ids.setdefault(key, entry.path) != entry.path
        state.doubles += len(entry.turns) if double else 0
        return double


class _PassListener:
    """Hears of what is no request, for a pass."""

    def __init__(self, found: Callable[[str, str], None], state: PassState) -> None:
        self.found = found
        self.left_out = state.left_out.add


def _no_group(asked: Sequence[str], found: set[str]) -> KvtoolError:
    """Return the error for groups of which a log has no request."""
    names = ", ".join(sorted(found)[:_MOST_GROUPS])
    more = f" and {len(found) - _MOST_GROUPS:,} more" if len(found) > _MOST_GROUPS else ""
    return KvtoolError(f"the log has no request of group {' or '.join(asked)}", hint=f"its groups are {names}{more}")
