"""Which tasks are to be done, which are to be tried again, and results in the order of the tasks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from kvtool.workload.tasks.task_map import Came, Poisoned

MOST_TRIES = 3
"""Processes that a task may end before it is left out."""


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
        """Whether all results were given out."""
        return self._out == self._count

    def take(self) -> int | None:
        """The task to begin next: those that were lost go first. None: nothing for now."""
        if self._again:
            return self._again.popleft()
        if self._begun == min(self._count, self._out + self._ahead):
            return None
        self._begun += 1
        return self._begun - 1

    def put(self, task: int, came: Came, value: object) -> None:
        """What came of a task that was taken; one that was lost is to be tried again, a bounded number of times."""
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
        """Those whose turn has come. Raises the error of a task that failed."""
        while self._out in self._came:
            came, value = self._came.pop(self._out)
            self._out += 1
            if came is Came.FAILED:
                assert isinstance(value, Exception)
                raise value
            yield value

    def check(self) -> None:
        """Each task is in one place only."""
        assert 0 <= self._out <= self._begun <= self._count
        waiting = set(self._again)
        assert len(waiting) == len(self._again)
        assert waiting.isdisjoint(self._came)
        assert all(self._out <= task < self._begun for task in waiting | self._came.keys())
        assert all(0 < tries <= MOST_TRIES for tries in self._ended.values())
