"""Several logs as one: their records in the order in which they arrived, with a cursor in each log that is being read."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kvtool.errors import KvtoolError


class Arriving(Protocol):
    """What is merged: seconds on the clock of the logs, None where the record does not say."""

    @property
    def arrival(self) -> float | None: ...


T = TypeVar("T", bound=Arriving)


@dataclass(slots=True)
class ArrivalCounts:
    """What a merge could not put in order: records that are earlier than the one before them in their log, and those without a
    time."""

    late: int = 0
    untimed: int = 0


@dataclass(frozen=True, slots=True)
class TimedLog(Generic[T]):
    """A log whose first record arrived at `first`; `records` begins to read it. An error stands for a record that is skipped."""

    first: float
    records: Callable[[], Iterator[T | KvtoolError]]


def by_arrival(logs: Sequence[TimedLog[T]], counts: ArrivalCounts) -> Iterator[T | KvtoolError]:
    """The records of all logs. A log is opened when the time of its first record has come and closed behind its last one.

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
