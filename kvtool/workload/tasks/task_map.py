"""Who does tasks, and what comes of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, TypeVar

from kvtool.workload.ahead.sent_error import sendable

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Stands in the place of a result: the task ended each of the `tries` processes that it was given to, the last one as `why`
    says."""

    tries: int
    why: str


class TaskMap(Protocol):
    """Does one piece of work on many items."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result | Poisoned]:
        """The result of each item, in their order, whoever did it and whenever it was done.

        Each worker gets `work` once, pickled where it is another process, and keeps it: what is slow to make, `work` makes when it
        is first called. Raises what `work` raises where its item's turn has come; whoever stops asking ends all workers.
        """
        ...


class OneProcess:
    """This process does all tasks, one after the other."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result | Poisoned]:
        """As `TaskMap` says. What ends a process ends this one."""
        return map(work, items)


class Came(Enum):
    """What came of trying a task in another process."""

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
        return Came.LOST, "it needed more memory than there is"
    except Exception as error:  # of whatever kind: it is raised where the results are taken
        return Came.FAILED, sendable(error)
