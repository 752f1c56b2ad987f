"""What one pass over logs sees beside their requests, and what of it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvtool.errors import KvtoolError
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.by_arrival import ArrivalCounts
from kvtool.workload.logs.grouping import Division

_MOST_ERRORS = 5
"""Files that are named in the head of a report."""


@dataclass(frozen=True, slots=True)
class LogOutcome:
    """What is to be told of a pass: how it went through its files and made groups, and by path, why a file could not be read to its
    end, where that did not end the run."""

    notes: Sequence[str]
    failed: Mapping[str, KvtoolError]


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How far a pass over logs has come: the share of their bytes, bad records left out, and by path the formats found since it was
    last asked; at its end also what else is to be told."""

    share: float | None
    skipped: int
    formats: dict[str, str] = field(default_factory=dict)
    outcome: LogOutcome | None = None


@dataclass(slots=True)
class PassState:
    """What one pass has seen so far."""

    division: Division
    arrivals: ArrivalCounts = field(default_factory=ArrivalCounts)
    failed: dict[str, KvtoolError] = field(default_factory=dict)
    doubles: int = 0
    """Requests whose id another file has, too."""

    def outcome(self, order: str | None) -> LogOutcome:
        """What is to be told of it; `order` says how it goes through several files."""
        arrivals = self.arrivals
        told = [] if order is None else [order]
        if arrivals.late:
            records = plural(arrivals.late, "record")
            told.append(f"{records} earlier than the one before in the same file, left in that order")
        if arrivals.untimed:
            told.append(f"{plural(arrivals.untimed, 'record')} without a time, taken right after the one before")
        if self.doubles:
            told.append(f"{plural(self.doubles, 'request')} with an id that another file has, too: named FILE:ID")
        errors = list(self.failed.values())
        told += [f"not read to its end: {error.place or ''}: {error.message}" for error in errors[:_MOST_ERRORS]]
        if len(errors) > _MOST_ERRORS:
            told.append(f"nor were {len(errors) - _MOST_ERRORS:,} more")
        return LogOutcome([*told, *self.division.notes()], dict(self.failed))
