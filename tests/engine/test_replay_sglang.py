"""SGLang's own cache, queue and admission, recorded, against its rules here: hits, evictions, batches and the tree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.replay import compare, main

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "sglang-0.5.23"
CASES = sorted(RECORDED.glob("[0-9]*.json"))
Case = dict[str, Any]


@pytest.mark.skipif(not CASES, reason="no recorded runs of SGLang beside this checkout")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_recorded_run_agrees(path: Path) -> None:
    assert list(compare(path)) == [(False, None)]


@pytest.mark.skipif(not CASES, reason="no recorded runs of SGLang beside this checkout")
def test_the_recorded_runs_are_all_there() -> None:
    cases = [json.loads(path.read_text()) for path in CASES]
    assert sum(sum(case["expected"]["cached_tokens"]) for case in cases) == 71_832
    assert sum(sum(case["expected"]["evicted_tokens"]) for case in cases) == 13_102
    assert {case["engine"].get("policy") for case in cases} == {None, "fcfs", "lpm", "dfs-weight"}


def small_case() -> Case:
    """A pool of 12 tokens, one at a time, worked out by hand.

    a and b leave 1 2 3 | 7 and 1 2 4 | 8: six tokens in all, as they share 1 2. c computes 5 5 5 5 5, which leaves one, and two of
    its answer: the least recent leaf goes, the 7 behind 1 2 3. The last finds 1 2, as its 3 must be computed, and evicts that 3.
    """
    return {
        "engine": {"page_size": 1, "eviction": "lru", "capacity": 12},
        "mode": "sequential",
        "requests": [
            {"prompt": [1, 2, 3], "output": [7, 9]},
            {"prompt": [1, 2, 4], "output": [8, 9]},
            {"prompt": [5, 5, 5, 5, 5], "output": [6, 6, 6]},
            {"prompt": [1, 2, 3], "output": [7]},
        ],
        "expected": {
            "cached_tokens": [0, 2, 0, 2],
            "evicted_tokens": [0, 0, 1, 1],
            "tree_tokens": 12,
            "prefill_batches": [[0], [1], [2], [3]],
        },
        "recorded_with": {"sglang": "0.5.23"},
    }


def queue_case() -> Case:
    """Three alike and one other, of which two run at once: under lpm the second and third wait for the first."""
    alike = list(range(100, 140))
    return {
        "engine": {
            "page_size": 1,
            "eviction": "lru",
            "capacity": 400,
            "policy": "lpm",
            "max_running": 3,
            "new_token_ratio": 1.0,
            "max_prefill_tokens": 4096,
        },
        "mode": "queue",
        "requests": [
            {"prompt": [*alike, 1], "output": [9], "arrival": 0},
            {"prompt": [*alike, 2], "output": [9], "arrival": 0},
            {"prompt": [*alike, 3], "output": [9], "arrival": 0},
            {"prompt": [5, 6, 7], "output": [9, 9], "arrival": 0},
            {"prompt": [5, 6, 7, 8], "output": [9], "arrival": 4},
        ],
        "expected": {
            "cached_tokens": [0, 0, 40, 0, 3],
            "evicted_tokens": [0, 0],
            "tree_tokens": 48,
            "prefill_batches": [[0, 3, 1], [2], [4]],
        },
        "recorded_with": {"sglang": "0.5.23"},
    }


def replayed(case: Case, path: Path) -> str | None:
    path.write_text(json.dumps(case))
    ((asynchronous, difference),) = compare(path)
    assert not asynchronous
    return difference


@pytest.mark.parametrize("case", [small_case(), queue_case()], ids=["sequential", "queue"])
def test_a_case_worked_out_by_hand_agrees(case: Case, tmp_path: Path) -> None:
    assert replayed(case, tmp_path / "case.json") is None


def set_in(*keys: str | int, to: Any) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        inner: Any = case
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to

    return change


def test_a_difference_is_named(tmp_path: Path) -> None:
    for change, difference in [
        (set_in("expected", "cached_tokens", 1, to=1), "cached_tokens[1] is 2, SGLang has 1"),
        (set_in("expected", "evicted_tokens", 2, to=2), "evicted_tokens[2] is 1, SGLang has 2"),
        (set_in("expected", "tree_tokens", to=11), "tree_tokens is 12, SGLang has 11"),
        (set_in("expected", "prefill_batches", to=[[0]]), "prefill_batches has 4 entries, SGLang has 1"),
    ]:
        case = copy.deepcopy(small_case())
        change(case)
        assert replayed(case, tmp_path / "case.json") == difference


def test_a_case_that_cannot_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change, said in [
        (set_in("engine", "hicache_ratio", to=2), "the rules of SGLang know no 'hicache_ratio'"),
        (set_in("engine", "eviction", to="oldest"), "radix_eviction_policy is 'oldest'"),
        (set_in("engine", "page_size", to=0), "page_size is 0"),
        (set_in("engine", "capacity", to=9), "a prompt of 3 tokens does not fit"),
        (set_in("engine", "page_size", to="1"), "malformed case"),
        (set_in("requests", 1, to=None), "malformed case"),
        (set_in("engine", to=None), "malformed case"),
    ]:
        case = copy.deepcopy(small_case())
        change(case)
        path = tmp_path / "case.json"
        path.write_text(json.dumps(case))
        assert main([str(path)]) == 2
        assert f"refused {path}: " + said in capsys.readouterr().out
