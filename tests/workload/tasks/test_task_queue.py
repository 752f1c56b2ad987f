"""The queue of tasks, whatever the order in which they are done, fail or are lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.workload.tasks.task_map import MOST_TRIES, Came, Poisoned, TaskQueue


@given(st.integers(0, 30), st.integers(1, 9), st.integers(1, 6), st.randoms(use_true_random=False))
def test_results_come_in_order_whatever_happens(count: int, ahead: int, workers: int, chance: object) -> None:
    queue = TaskQueue(count, ahead=ahead)
    ended: dict[int, int] = {}
    busy: list[int] = []
    given_out: list[object] = []
    while not queue.over:
        while len(busy) < workers and (task := queue.take()) is not None:
            assert task not in busy
            assert task < len(given_out) + ahead
            busy.append(task)
        queue.check()
        assert busy, "nobody has anything to do, and it is not over"
        task = busy.pop(chance.randrange(len(busy)))  # type: ignore[attr-defined] # a random.Random
        if chance.random() < 0.4:  # type: ignore[attr-defined] # the same
            ended[task] = ended.get(task, 0) + 1
            queue.put(task, Came.LOST, "gone")
        else:
            queue.put(task, Came.DONE, task * 10)
        queue.check()
        given_out += queue.results()
        queue.check()
    assert not busy
    assert queue.take() is None
    expected = [
        Poisoned(MOST_TRIES, "gone") if ended.get(task, 0) == MOST_TRIES else task * 10 for task in range(count)
    ]
    assert given_out == expected
    assert all(times <= MOST_TRIES for times in ended.values())


def test_a_failure_is_raised_when_its_turn_has_come() -> None:
    queue = TaskQueue(3, ahead=3)
    assert [queue.take(), queue.take(), queue.take(), queue.take()] == [0, 1, 2, None]
    queue.put(1, Came.FAILED, KvtoolError("no"))
    assert list(queue.results()) == []
    queue.put(0, Came.DONE, "first")
    results = queue.results()
    assert next(results) == "first"
    with pytest.raises(KvtoolError, match="no"):
        next(results)


def test_what_was_lost_goes_first() -> None:
    queue = TaskQueue(5, ahead=2)
    assert [queue.take(), queue.take(), queue.take()] == [0, 1, None]
    queue.put(1, Came.LOST, "gone")
    assert queue.take() == 1
    queue.put(0, Came.DONE, None)
    assert list(queue.results()) == [None]
    assert queue.take() == 2
