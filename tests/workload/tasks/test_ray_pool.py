"""Tasks on several nodes of Ray on one machine: the same results; nodes, workers and whole clusters that go away."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.tasks import ray_pool
from kvtool.workload.tasks.ray_pool import ClusterGoneError, RayPool
from kvtool.workload.tasks.task_map import MOST_TRIES, Poisoned
from tests.workload.tasks.made_work import Squares, squares
from tests.workload.tasks.ray_nodes import Node

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="nodes are killed by way of /proc"),
]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """A head and another node; a cluster is believed to be gone sooner than Ray would."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the workers, which take tasks of tests
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "only-for-tests-" + "0" * 49)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    there: list[Node] = []
    try:
        there.append(Node(tmp_path))
        there.append(Node(tmp_path, there[0].address))
        yield there
    finally:
        for each in reversed(there):
            each.kill()
        assert multiprocessing.active_children() == []


def test_the_same_results_whatever_is_lost(nodes: list[Node], tmp_path: Path) -> None:
    address = nodes[0].address
    work = Squares(str(tmp_path), shaky=frozenset((1,)), deadly=frozenset((4,)), hungry=frozenset((6,)))
    found = list(RayPool(None, address).map(work, range(9)))
    assert found[4] == Poisoned(MOST_TRIES, "its worker or node was lost")
    assert found[6] == Poisoned(MOST_TRIES, "it ran out of memory")
    assert [found[at] for at in (0, 1, 2, 3, 5, 7, 8)] == [0, 1, 4, 9, 25, 49, 64]
    assert (work.tried(1), work.tried(4)) == (2, MOST_TRIES)
    results = RayPool(2, address).map(Squares(wrong=frozenset((2,))), range(9))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(KvtoolError, match="2 is no number") as caught:
        next(results)
    assert caught.value.hint == "another one"
    results = RayPool(2, address).map(Squares(seconds=0.05), range(1_000))
    assert next(results) == 0
    del results
    assert multiprocessing.active_children() == []
    assert list(RayPool(2, address).map(Squares(), [])) == []


def test_a_node_that_goes_away_is_done_without(nodes: list[Node], tmp_path: Path) -> None:
    results = RayPool(None, nodes[0].address).map(Squares(str(tmp_path), seconds=0.2), range(30))
    found = [next(results) for _ in range(4)]
    nodes[1].kill()
    found += results
    assert found == squares(30)


def test_a_cluster_that_goes_away_is_told_of_behind_what_it_did(nodes: list[Node]) -> None:
    results = RayPool(None, nodes[0].address).map(Squares(seconds=0.5), range(1_000))
    found = [next(results) for _ in range(3)]
    for each in nodes:
        each.kill()
    with pytest.raises(ClusterGoneError, match="went away after") as caught:
        found.extend(results)  # what comes before the error stays
    assert found == squares(len(found))
    assert f"after {len(found)} of 1,000 tasks" in caught.value.message
    assert caught.value.exit_code == 4


def test_a_cluster_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "_REACH", 5.0)
    with pytest.raises(ClusterGoneError, match="cannot use a Ray cluster"):
        list(RayPool(1, "127.0.0.1:9").map(Squares(), range(3)))


def test_what_ray_raises_is_one_short_line() -> None:
    assert ray_pool._first_line(ConnectionError("first\nsecond")) == "first"
    assert ray_pool._first_line(ConnectionError()) == "ConnectionError"
