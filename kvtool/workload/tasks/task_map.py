"""Work on many items: who does it, what becomes of one item, and the order of their results."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, TypeVar

from kvtool.workload.ahead.child import sendable

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST_TRIES = 3
"""Processes that a task may end before it is left out."""


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Stands in the place of a result: the task ended each of the `tries` processes that it was given to, the last one as `why`
    says."""

    tries: int
    why: str


class TaskMap(Protocol):
    """Does one piece of work on many items."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result | Poisoned]:
        """Return the result of each item, in their order, whoever did it and whenever it was done.

        Each worker gets `work` once, pickled where it is another process, and keeps it: what is slow to make, `work` makes when it
        is first called. Raises what `work` raises where its item's turn has come; whoever stops asking ends all workers.
        """
        ...


class SingleProcess:
    """This process does all tasks, one after the other."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result | Poisoned]:
        """Map as `TaskMap` says. What ends a process ends this one."""
        return map(work, items)


class Came(Enum):
    """Outcomes of a task in another process."""

    DONE = auto()
    FAILED = auto()
    """With the error."""
    LOST = auto()
    """With the reason: another process may do better."""


def attempt(work: Callable[[Item], object], item: Item) -> tuple[Came, object]:
    """Try a task where results are sent on."""
    try:
        return Came.DONE, work(item)
    except MemoryError:
        return Came.LOST, "it ran out of memory"
    except Exception as error:  # of whatever kind: it is raised where the results are taken
        return Came.FAILED, sendable(error)


class TaskQueue:
    """Tasks are numbered from 0. None begins while that which stands `ahead` before it was not given out: few wait."""

    def __init__(self, count: int, *, ahead: int) -> None:
        assert ahead >= 1
        self._count = count
        self._ahead = ahead
        self._begun = 0
        self._out = 0
        self._again: deque[int] = deque()
        self._ended: Counter[int] = Counter()
        """By task, the processes that did not survive it."""
        self._came: dict[int, tuple[Came, object]] = {}

    @property
    def over(self) -> bool:
        """Return whether all results were given out."""
        return self._out == self._count

    def take(self) -> int | None:
        """Return the task to begin next: those that were lost go first. None: nothing for now."""
        if self._again:
            return self._again.popleft()
        if self._begun == min(self._count, self._out + self._ahead):
            return None
        self._begun += 1
        return self._begun - 1

    def put(self, task: int, came: Came, value: object) -> None:
        """Note the outcome of a task that was taken; a lost one is tried again, a bounded number of times."""
        assert task not in self._came
        assert self._out <= task < self._begun
        if came is not Came.LOST:
            self._came[task] = came, value
            return
        self._ended[task] += 1
        if self._ended[task] < MOST_TRIES:
            self._again.append(task)
        else:
            self._came[task] = Came.LOST, Poisoned(self._ended[task], str(value))

    def results(self) -> Iterator[object]:
        """Yield the results whose turn has come. Raise the error of a task that failed."""
        while self._out in self._came:
            came, value = self._came.pop(self._out)
            self._out += 1
            if came is Came.FAILED:
                assert isinstance(value, Exception)
                raise value
            yield value

    def check(self) -> None:
        """Check that each task is in one place only."""
        assert 0 <= self._out <= self._begun <= self._count
        waiting = set(self._again)
        assert len(waiting) == len(self._again)
        assert waiting.isdisjoint(self._came)
        assert all(self._out <= task < self._begun for task in waiting | self._came.keys())
        assert all(0 < tries <= MOST_TRIES for tries in self._ended.values())
