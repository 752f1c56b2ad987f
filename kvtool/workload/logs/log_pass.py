"""Findings of one pass over logs beside their requests, and the notes on them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kvtool.errors import KvtoolError, Place
from kvtool.text.terminal.numbers import plural
from kvtool.workload.call import NO_CALL, StoredContent
from kvtool.workload.logs.records.record_format import LeftOut, in_plural
from kvtool.workload.request_fields import REQUEST_FIELDS, not_followed, requested_answers
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.workload.logs.groups.grouping import Division, TenantField
    from kvtool.workload.logs.survey import Order

_MOST_ERRORS = 5
"""Files that are named in the head of a report."""


class Arriving(Protocol):
    """An item to merge: seconds on the clock of the logs, None where the record does not say."""

    @property
    def arrival(self) -> float | None: ...


T = TypeVar("T", bound=Arriving)


@dataclass(slots=True)
class ArrivalCounts:
    """Counts of records that a merge could not put in order: those that are earlier than the one before them in their log, and
    those without a time."""

    late: int = 0
    untimed: int = 0


@dataclass(frozen=True, slots=True)
class TimedLog(Generic[T]):
    """A log whose first record arrived at `first`; `records` begins to read it. An error stands for a record that is skipped."""

    first: float
    records: Callable[[], Iterator[T | KvtoolError]]


def by_arrival(logs: Sequence[TimedLog[T]], counts: ArrivalCounts) -> Iterator[T | KvtoolError]:
    """Yield the records of all logs. A log is opened when the time of its first record has come and closed after its last one.

    The order within a log is never changed: a record that is earlier than the one before it, or says no time, comes right after
    that. Of records of one time those of an earlier log of the list come first.
    """
    coming = sorted(range(len(logs)), key=lambda number: (logs[number].first, number), reverse=True)
    heads: list[tuple[float, int, T, Iterator[T | KvtoolError]]] = []

    def advance(number: int, last: float, records: Iterator[T | KvtoolError]) -> Iterator[KvtoolError]:
        """Put the next record of a log among the heads; what is skipped on the way is given out."""
        for record in records:
            if isinstance(record, KvtoolError):
                yield record
                continue
            arrival = record.arrival
            if arrival is None:
                counts.untimed += 1
                arrival = last
            elif arrival < last:
                counts.late += 1
            heapq.heappush(heads, (arrival, number, record, records))
            return

    while coming or heads:
        while coming and (not heads or logs[coming[-1]].first <= heads[0][0]):
            number = coming.pop()
            yield from advance(number, logs[number].first, logs[number].records())
        if heads:
            arrival, number, record, records = heapq.heappop(heads)
            yield record
            yield from advance(number, arrival, records)


@dataclass(frozen=True, slots=True)
class LogOutcome:
    """Notes on a pass: how it went through its files and made groups, and by path, why a file could not be read to its end, where
    that did not end the run."""

    notes: Sequence[str]
    failed: Mapping[str, KvtoolError]
    stored: Sequence[StoredContent] = ()
    """Explicit caches that records tell of which are no requests."""
    groups: Sequence[str] = ()
    """Those of the notes that are of groups, for what makes none."""
    times: Sequence[str] = ()
    """Those that say where a file goes back in time."""
    wrong_usage: Sequence[str] = ()
    """The one on usage that contradicts itself."""


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How far a pass over logs has come: the share of their bytes, bad records left out, and by path the formats found since it was
    last asked; at its end also what else is to be reported."""

    share: float | None
    skipped: int
    formats: dict[str, str] = field(default_factory=dict)
    outcome: LogOutcome | None = None


@dataclass(slots=True)
class LeftOuts:
    """Contents of records beside requests, by kind: how many, and the place of the first."""

    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    hint: str | None = None
    """What to do where there is nothing else."""
    stored: list[StoredContent] = field(default_factory=list)
    """Explicit caches that are told of."""
    hear: Callable[[Turn], None] | None = None
    """Who hears of calls whose prompt is not in the log; they are not counted here then."""
    heard: int = 0

    def add(self, item: LeftOut, place: Place) -> None:
        """Count one more."""
        if item.told is not None and self.hear is not None:
            self.heard += 1
            self.hear(item.told)
            return
        self.counts[item.kind] = self.counts.get(item.kind, 0) + item.number
        self.places.setdefault(item.kind, place)
        self.hint = self.hint or item.hint
        self.stored += [] if item.stored is None else [item.stored]

    def notes(self) -> list[str]:
        """Return `left out: 4 retriever spans, 1 failed`, the most first."""
        most = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return [f"left out: {', '.join(counted(kind, count) for kind, count in most)}"] if most else []


def counted(kind: str, count: int) -> str:
    """Return a number with its noun (`2 calls without a prompt`), or participle."""
    return f"{count:,} {kind if count == 1 else in_plural(kind)}"


def repeated_notes(count: int) -> list[str]:
    """Return the note on calls that are not counted again."""
    return [f"{plural(count, 'call')} logged more than once, counted once"] if count else []


def wrong_usage_notes(count: int, first: str) -> list[str]:
    """Return the note on usage that contradicts itself, with the place of the first and how."""
    told = f"usage of {plural(count, 'request')} contradicts itself and counts as unknown; the first at {first}"
    return [told] if count else []


@dataclass(slots=True)
class PromptCounts:
    """How many prompts the log does not hold in whole, and which of their parts are no text."""

    requests: int = 0
    with_parts: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    incomplete: dict[str, int] = field(default_factory=dict)
    not_followed: dict[str, int] = field(default_factory=dict)
    """Requests by the field that they set and that nothing follows."""
    unread: dict[str, int] = field(default_factory=dict)
    """Requests by the key that looks like their answer and that no reader knows."""
    shared: int = 0
    """Requests whose server reported the cached tokens of one request for several."""
    wrong: int = 0
    """Requests whose usage contradicts itself."""
    first_wrong: str = ""
    """Where the first one is, and how."""

    def add(self, turn: Turn) -> None:
        """Count one more request."""
        self.requests += 1
        call = turn.call
        if turn.fields:
            for name in not_followed(turn.fields):
                self.not_followed[name] = self.not_followed.get(name, 0) + 1
            self.shared += requested_answers(turn.fields) > 1 and not call.shares_usage
        self.shared += call.shares_usage
        if call is NO_CALL:
            return
        if call.usage is not None and call.usage.wrong is not None:
            self.first_wrong = self.first_wrong or f"{turn.place or turn.id}: {call.usage.wrong}"
            self.wrong += 1
        if call.uncounted:
            self.with_parts += 1
            for kind, count in call.uncounted:
                self.parts[kind] = self.parts.get(kind, 0) + count
        if call.incomplete is not None:
            self.incomplete[call.incomplete] = self.incomplete.get(call.incomplete, 0) + 1
        if call.unread is not None:
            self.unread[call.unread] = self.unread.get(call.unread, 0) + 1

    def notes(self) -> list[str]:
        """Return the notes."""
        told = []
        if self.with_parts:
            kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.parts.items()))
            told.append(
                f"{self.with_parts:,} of {plural(self.requests, 'prompt')} have parts that are not counted: {kinds}"
            )
        if self.incomplete:
            count = sum(self.incomplete.values())
            why = "; ".join(
                why if len(self.incomplete) == 1 else f"{number:,}: {why}"
                for why, number in sorted(self.incomplete.items(), key=lambda item: (-item[1], item[0]))
            )
            verb = "is" if self.requests == 1 else "are"
            told.append(f"{count:,} of {plural(self.requests, 'prompt')} {verb} incomplete in the log ({why})")
        told += self.not_followed_notes()
        if self.shared:
            told.append(
                f"{plural(self.shared, 'call')} with several prompts or answers: each is an engine request, "
                "usage reports the cached tokens of one"
            )
        return told

    def unread_notes(self) -> list[str]:
        """Return a note on the keys that look like answers and were left unread."""
        if not self.unread:
            return []
        keys = ", ".join(f"{name} of {plural(count, 'request')}" for name, count in sorted(self.unread.items()))
        return [f"unread, but probably the answer: {keys}; read it with --map output=KEY"]

    def not_followed_notes(self) -> list[str]:
        """Return notes on fields of requests that change what a server does and not what is predicted."""
        return [
            f"`{name}` of {plural(count, 'request')} is not followed: {REQUEST_FIELDS[name].does}"
            for name, count in sorted(self.not_followed.items())
        ]


@dataclass(slots=True)
class PassState:
    """State of one pass."""

    division: Division
    left_out: LeftOuts = field(default_factory=LeftOuts)
    prompts: PromptCounts = field(default_factory=PromptCounts)
    records: int = 0
    repeated: int = 0
    """Calls that were read before, and are not counted again."""
    arrivals: ArrivalCounts = field(default_factory=ArrivalCounts)
    sorted: dict[str, Order] = field(default_factory=dict)
    """By file, the order of time where it is not that of the file."""
    failed: dict[str, KvtoolError] = field(default_factory=dict)
    doubles: int = 0
    """Requests whose id another file has, too."""
    tenants: TenantField | None = None
    """Whose requests they are, where a field was named that says so."""

    def outcome(self, order: str | None) -> LogOutcome:
        """Return the outcome of the pass; `order` says how it goes through several files."""
        arrivals = self.arrivals
        told = [] if order is None else [order]
        if arrivals.late:
            records = plural(arrivals.late, "record")
            told.append(f"{records} earlier than the previous one in the file, order kept")
        if arrivals.untimed:
            told.append(f"{plural(arrivals.untimed, 'record')} without a time, placed after the previous one")
        times, wrong = self._sorted(), wrong_usage_notes(self.prompts.wrong, self.prompts.first_wrong)
        told += [*times, *wrong]
        if self.doubles:
            told.append(
                f"{plural(self.doubles, 'request')} with an id that another file also contains: renamed FILE:ID"
            )
        told += [
            *self.left_out.notes(),
            *repeated_notes(self.repeated),
            *self.prompts.notes(),
            *self.prompts.unread_notes(),
        ]
        told += [] if self.tenants is None else self.tenants.notes()
        errors = list(self.failed.values())
        told += [f"not read completely: {error.place or ''}: {error.message}" for error in errors[:_MOST_ERRORS]]
        if len(errors) > _MOST_ERRORS:
            told.append(f"and {len(errors) - _MOST_ERRORS:,} more")
        groups = self.division.notes()
        return LogOutcome([*told, *groups], dict(self.failed), tuple(self.left_out.stored), groups, times, wrong)

    def _sorted(self) -> list[str]:
        """Return notes on files that go back in time; of many, only the first ones."""
        files = list(self.sorted.items())
        told = [
            f"{path}:{order.line}: sorted by time: {plural(order.late, 'request')} earlier than a previous one"
            for path, order in files[:_MOST_ERRORS]
        ]
        return [*told, f"and {len(files) - _MOST_ERRORS:,} more files"] if len(files) > _MOST_ERRORS else told
