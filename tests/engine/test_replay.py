"""vLLM's own scheduler, recorded, against ours: every block id, event and step."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.replay import Replay, compare, main

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "vllm-0.33"
CASES = sorted([*RECORDED.glob("s[0-9]*.json"), *RECORDED.glob("b[0-9]*.json")])
Case = dict[str, Any]


@pytest.mark.skipif(not CASES, reason="no recorded vLLM workloads beside this checkout")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_recorded_workload_agrees(path: Path) -> None:
    assert next(compare(path)) == (False, None)


@pytest.mark.skipif(not CASES, reason="no recorded vLLM workloads beside this checkout")
def test_the_recorded_workloads_are_all_there() -> None:
    assert len(CASES) >= 25


def small_case() -> Case:
    """Five usable blocks of two tokens, worked out by hand.

    a = 1 2 3 | 7 8: blocks 1 and 2, both full when 7 is computed. b begins like a, hits block 1, takes 3. c needs four of the five
    blocks: 3, which b left half full, the untouched 4 and 5, then the tail of a.
    """
    return {
        "case": "small",
        "params": {
            "mode": "sequential",
            "block_size": 2,
            "num_blocks": 6,
            "max_num_batched_tokens": 64,
            "max_num_seqs": 4,
            "max_model_len": 64,
            "enable_prefix_caching": True,
        },
        "actions": [{"before": "d", "action": "reset_prefix_cache"}],
        "requests": [
            {"id": "a", "token_ids": [1, 2, 3], "output_ids": [7, 8]},
            {"id": "b", "token_ids": [1, 2, 9], "output_ids": [5]},
            {"id": "c", "token_ids": [4, 4, 4, 4, 4, 4, 4], "output_ids": [5]},
            {"id": "d", "token_ids": [1, 2, 3], "output_ids": [5]},
        ],
        "expected": {
            "requests": [
                {
                    "id": "a",
                    "num_cached_tokens": 0,
                    "admissions": [[0, 0]],
                    "num_preemptions": 0,
                    "submitted_step": 0,
                    "first_token_step": 0,
                    "finish_step": 1,
                    "block_ids": [1, 2],
                },
                {"id": "b", "num_cached_tokens": 2, "admissions": [[2, 2]], "block_ids": [1, 3]},
                {"id": "c", "num_cached_tokens": 0, "block_ids": [3, 4, 5, 2]},
                {"id": "d", "num_cached_tokens": 0, "finish_step": 4, "block_ids": [2, 1]},
            ],
            # after a: 3 4 5 2 1, after b (its half-filled 3 goes to the front): 3 4 5 2 1; c: 2 is not full, then 1 5 4 3
            "kv_events": [
                ["S", 0, ["a:0"], None],
                ["S", 1, ["a:1"], "a:0"],
                ["R", 3, "a:1"],
                ["S", 3, ["c:0", "c:1", "c:2"], None],
                ["C", 4],
                ["S", 4, ["a:0"], None],
            ],
            "evictions": [[3, "a:1"]],
            "final_free_queue": [[1, None], [5, None], [4, None], [3, None], [2, "a:0"]],
            "finish_order": ["a", "b", "c", "d"],
            "preemptions": [],
            "totals": {"evictions": 1, "stored_blocks": 6, "engine_steps": 5, "peak_used_blocks": 4},
        },
    }


def write(path: Path, case: object) -> str:
    path.write_text(json.dumps(case))
    return str(path)


def test_the_small_case_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(tmp_path / "small.json", small_case())
    assert main([name, name]) == 0
    assert capsys.readouterr().out == f"agree   {name}\nagree   {name}\n2 of 2 agree\n"


def refusal(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Why the file is refused."""
    assert main([path]) == 2
    line, _, rest = capsys.readouterr().out.partition("\n")
    assert rest.endswith(", 1 refused\n")
    return line.removeprefix(f"refused {path}: ")


def set_at(case: Case, path: list[str | int], value: object) -> None:
    target: Any = case["expected"]
    for key in path[:-1]:
        target = target[key]
    assert target[path[-1]] != value
    target[path[-1]] = value


def drop_event(case: Case) -> None:
    del case["expected"]["kv_events"][-1]


FALSEHOODS: list[tuple[Callable[[Case], None], str]] = [
    (
        lambda case: set_at(case, ["requests", 1, "num_cached_tokens"], 0),
        "request b: num_cached_tokens is 2, vLLM has 0",
    ),
    (
        lambda case: set_at(case, ["requests", 2, "block_ids", 3], 1),
        "request c: block_ids is [3, 4, 5, 2], vLLM has [3, 4, 5, 1]",
    ),
    (lambda case: set_at(case, ["requests", 0, "id"], "z"), "request z: expected, never submitted"),
    (
        lambda case: set_at(case, ["kv_events", 2], ["R", 3, "a:0"]),
        "kv_events[2] is ['R', 3, 'a:1'], vLLM has ['R', 3, 'a:0']",
    ),
    (drop_event, "kv_events has 6 entries, vLLM has 5"),
    (lambda case: set_at(case, ["evictions", 0, 0], 2), "evictions[0] is [3, 'a:1'], vLLM has [2, 'a:1']"),
    (
        lambda case: set_at(case, ["final_free_queue", 4, 1], None),
        "final_free_queue[4] is [2, 'a:0'], vLLM has [2, None]",
    ),
    (lambda case: set_at(case, ["finish_order", 0], "b"), "finish_order[0] is a, vLLM has b"),
    (lambda case: set_at(case, ["preemptions"], [[0, "a"]]), "preemptions has 0 entries, vLLM has 1"),
    (lambda case: set_at(case, ["totals", "stored_blocks"], 7), "totals: stored_blocks is 6, vLLM has 7"),
]


def test_one_false_expectation_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for falsify, difference in FALSEHOODS:
        good = write(tmp_path / "good.json", small_case())
        case = copy.deepcopy(small_case())
        falsify(case)
        bad = write(tmp_path / "bad.json", case)
        assert main([good, bad]) == 1
        assert capsys.readouterr().out == f"agree   {good}\ndiffer  {bad}: {difference}\n1 of 2 agree\n"


def test_a_false_trace_differs() -> None:
    case = small_case()
    replay = Replay(case).run()
    case["expected"]["trace"] = copy.deepcopy(replay.trace)
    assert list(replay.differences()) == []
    assert case["expected"]["trace"][0] == {
        "t": 0,
        "sched": {"a": [0, 3]},
        "preempted": [],
        "free_blocks": 3,
        "waiting": 0,
    }
    case["expected"]["trace"][3]["free_blocks"] += 1
    assert [difference[:8] for difference in replay.differences()] == ["trace[3]"]


def test_batched_requests_come_at_their_steps_and_idle_steps_count() -> None:
    case = small_case()
    case["params"]["mode"] = "batched"
    case["actions"] = []
    case["requests"] = [
        {"id": "b", "step": 5, "token_ids": [1, 2, 9], "output_ids": [5]},
        {"id": "a", "step": 0, "token_ids": [1, 2, 3], "output_ids": [7, 8]},
    ]
    replay = Replay(case).run()
    assert {name: (seen.submitted_step, seen.finish_step) for name, seen in replay.seen.items()} == {
        "a": (0, 1),
        "b": (5, 5),
    }
    assert replay.seen["b"].request.admissions == [(5, 2)]


BROKEN: dict[str, object] = {
    "a list": [],
    "no requests": {key: value for key, value in small_case().items() if key != "requests"},
    "no mode": {**small_case(), "params": {"block_size": 2}},
    "params that are no object": {**small_case(), "params": []},
    "block size 0": {**small_case(), "params": {**small_case()["params"], "block_size": 0}},
    "more blocks than any memory holds": {
        **small_case(),
        "params": {**small_case()["params"], "num_blocks": 1 << 60},
    },
    "block size in words": {**small_case(), "params": {**small_case()["params"], "block_size": "two"}},
    "a request that is a word": {**small_case(), "requests": ["a"]},
    "a request without tokens": {**small_case(), "requests": [{"id": "a", "token_ids": [], "output_ids": [1]}]},
    "a request without output": {**small_case(), "requests": [{"id": "a", "token_ids": [1], "output_ids": []}]},
    "tokens in words": {**small_case(), "requests": [{"id": "a", "token_ids": ["x"], "output_ids": [1]}]},
    "tokens beyond 32 bits": {**small_case(), "requests": [{"id": "a", "token_ids": [1 << 40], "output_ids": [1]}]},
    "a request that never fits": {**small_case(), "requests": [{"id": "a", "token_ids": [1] * 60, "output_ids": [1]}]},
    "an unknown action": {**small_case(), "actions": [{"before": "a", "action": "dance"}]},
    "an action that is a number": {**small_case(), "actions": [7]},
    "expectations that are a list": {**small_case(), "expected": []},
    "events that are a number": {**small_case(), "expected": {**small_case()["expected"], "kv_events": 3}},
}


def test_a_malformed_case_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in BROKEN:
        path = write(tmp_path / "broken.json", BROKEN[name])
        assert refusal(path, capsys)


def test_a_case_without_requests_agrees_if_nothing_is_expected(tmp_path: Path) -> None:
    case = small_case()
    case["requests"] = []
    case["expected"] = {
        "requests": [],
        "kv_events": [],
        "evictions": [],
        "final_free_queue": [[block, None] for block in range(1, 6)],
        "finish_order": [],
        "preemptions": [],
        "totals": {"peak_used_blocks": 0},
    }
    assert main([write(tmp_path / "none.json", case)]) == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"{", "not JSON"), (b"\xff\xfe\x00", "not JSON"), (b"[" * 100_000, "not JSON"), (None, "No such file")],
)
def test_what_cannot_be_read_is_an_error(
    content: bytes | None, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.json"
    if content is not None:
        path.write_bytes(content)
    assert refusal(str(path), capsys).startswith(reason)


def test_files_are_judged_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is refused hides no other; a difference counts more."""
    good = write(tmp_path / "good.json", small_case())
    unknown = write(tmp_path / "unknown.json", {**small_case(), "actions": [{"before": "a", "action": "dance"}]})
    absent = str(tmp_path / "absent.json")
    case = small_case()
    case["expected"]["finish_order"] = []
    bad = write(tmp_path / "bad.json", case)
    assert main([absent, unknown, good]) == 2
    lines = f"refused {absent}: No such file or directory\nrefused {unknown}: unknown action 'dance'\n"
    captured = capsys.readouterr()
    assert captured.out == f"{lines}agree   {good}\n1 of 1 agree, 2 refused\n"
    assert captured.err == "error: 2 of 3 files cannot be compared\n"
    assert main([unknown, bad, good]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"differ  {bad}: finish_order has 4 entries, vLLM has 0",
        f"agree   {good}",
        "1 of 2 agree, 1 refused",
    ]


def running_reset(last_action: int) -> Case:
    """One request of 3 + 3 tokens, which a reset puts back before step 2, and another reset when nothing runs any more."""
    return {
        "params": {**small_case()["params"], "mode": "batched", "num_blocks": 9},
        "actions": [
            {"step": 2, "action": "reset_prefix_cache_running"},
            {"step": last_action, "action": "reset_prefix_cache_running"},
        ],
        "requests": [{"id": "a", "step": 0, "token_ids": [1, 2, 3], "output_ids": [7, 8, 9]}],
    }


def test_a_reset_preempts_what_runs() -> None:
    """As vLLM 0.33 does it: the output in flight is dropped, and two steps that drain the queue of batches may pass while idle."""
    for asynchronous, last_action, steps in [(False, 3, 4), (False, 9, 10), (True, 5, 7), (True, 6, 7), (True, 9, 10)]:
        replay = Replay(running_reset(last_action), asynchronous=asynchronous).run()
        again = [{"a": [0, 4]}, {"a": [4, 1]}, {}] if asynchronous else [{"a": [0, 5]}]
        assert [row["sched"] for row in replay.trace] == [{"a": [0, 3]}, {"a": [3, 1]}, *again]
        expected = {
            "requests": [{"id": "a", "num_preemptions": 1, "finish_step": 4 if asynchronous else 2}],
            "preemptions": [[2, "a"]],
            "actions": [[2, "reset_prefix_cache_running", True], [last_action, "reset_prefix_cache_running", True]],
            "kv_events": replay.events,
            "evictions": [],
            "finish_order": ["a"],
            "final_free_queue": replay.words.free_queue(),
            "totals": {"engine_steps": steps, "all_blocks_cleared": 2},
        }
        name = "expected_async_scheduling" if asynchronous else "expected"
        replay.case[name] = expected
        assert list(replay.differences()) == []
        replay.case[name] = {**expected, "preemptions": [], "actions": []}
        assert list(replay.differences()) == [
            "preemptions has 1 entries, vLLM has 0",
            "actions has 2 entries, vLLM has 0",
        ]


def test_a_folder_is_an_error_and_no_file_at_all_is_one_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert capsys.readouterr().err.count("usage: ") == 2


GROUPED = sorted((RECORDED.parent / "vllm-0.33-hybrid").glob("h*.json"))
FOUND = sorted((RECORDED.parents[1] / "data" / "truth" / "hybrid").glob("*.json"))
"""Random workloads on which kvtool once differed."""


@pytest.mark.skipif(not GROUPED, reason="no recorded workloads of several groups beside this checkout")
@pytest.mark.parametrize("path", [*GROUPED, *FOUND], ids=lambda path: path.stem)
def test_a_recorded_workload_of_several_groups_agrees(path: Path) -> None:
    """In every field, and asynchronously in what was recorded of that."""
    assert [difference for _, difference in compare(path) if difference is not None] == []


@pytest.mark.skipif(not GROUPED, reason="no recorded workloads of several groups beside this checkout")
def test_the_recorded_workloads_of_several_groups_are_all_there() -> None:
    assert len(GROUPED) >= 35
