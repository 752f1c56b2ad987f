"""Processes that do tasks: the same results in the same order, retried where a process was lost; nothing stays behind."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.tasks import process_pool
from kvtool.workload.tasks.process_pool import ProcessPool
from kvtool.workload.tasks.task_map import MOST_TRIES, Poisoned, SingleProcess
from kvtool.workload.tasks.task_options import TaskOptions
from tests.workload.tasks.made_work import Squares, squares

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals end processes there in another way")


@pytest.fixture(params=["copied", "fresh"])
def begun(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of beginning a process, whatever other tests have imported."""
    copied = request.param == "copied"
    if copied and sys.platform != "linux":
        pytest.skip("processes are copied on Linux only")
    monkeypatch.setattr(process_pool, "can_fork", lambda: copied)


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


def test_the_same_as_one_process(begun: None, tmp_path: Path) -> None:
    work = Squares(str(tmp_path))
    assert list(ProcessPool(3).map(work, range(20))) == list(SingleProcess().map(work, range(20))) == squares(20)
    assert list(ProcessPool(3).map(work, [])) == []


def test_a_lost_process_is_replaced_and_its_task_done_by_another(begun: None, tmp_path: Path) -> None:
    work = Squares(str(tmp_path), shaky=frozenset((0, 3)))
    assert list(ProcessPool(2).map(work, range(6))) == squares(6)
    assert (work.tried(0), work.tried(3), work.tried(5)) == (2, 2, 1)


def test_a_task_that_ends_every_process_is_left_out_and_the_others_are_done(begun: None, tmp_path: Path) -> None:
    work = Squares(str(tmp_path), deadly=frozenset((2,)), hungry=frozenset((4,)))
    found = list(ProcessPool(2).map(work, range(6)))
    assert found[2] == Poisoned(MOST_TRIES, "signal 9 ended its process")
    assert found[4] == Poisoned(MOST_TRIES, "it ran out of memory")
    assert [found[at] for at in (0, 1, 3, 5)] == [0, 1, 9, 25]
    assert work.tried(2) == MOST_TRIES


def test_a_mistake_is_raised_behind_the_results_before_it(begun: None) -> None:
    results = ProcessPool(2).map(Squares(wrong=frozenset((3,))), range(9))
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    with pytest.raises(KvtoolError, match="3 is no number") as caught:
        next(results)
    assert caught.value.hint == "another one"


def test_who_asks_for_no_more_ends_all(begun: None) -> None:
    results = ProcessPool(2).map(Squares(seconds=0.01), range(1_000))
    assert next(results) == 0
    assert len(multiprocessing.active_children()) == 2
    del results


def test_processes_that_never_begin_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "can_fork", lambda: sys.platform == "linux")
    monkeypatch.setattr(process_pool, "_live", _gone_at_once)
    with pytest.raises(KvtoolError, match="do not start: its process ended with exit code 3"):
        list(ProcessPool(2).map(Squares(), range(3)))


def _gone_at_once(*_: object) -> None:
    sys.exit(3)


def test_without_room_for_processes_this_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(process_pool._Team, "_begun", full)
    assert list(ProcessPool(2).map(Squares(), range(4))) == squares(4)


def test_as_many_processes_as_were_asked_for_or_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.workload.tasks.task_options.cores", lambda: 8)
    assert isinstance(TaskOptions(1).task_map(pays=True), SingleProcess)
    assert isinstance(TaskOptions().task_map(pays=False), SingleProcess)
    for asked in (TaskOptions(2), TaskOptions()):
        assert isinstance(asked.task_map(pays=True), ProcessPool)
    monkeypatch.setattr("kvtool.workload.tasks.task_options.cores", lambda: 1)
    assert isinstance(TaskOptions().task_map(pays=True), SingleProcess)
