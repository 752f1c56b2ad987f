"""`what-if --sweep policy` by engines' own rules: the figures are those of `kvtool profile` with the same cache."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.conftest import NIGHTLY

POLICIES = ("lru", "lfu", "slru", "priority")


def written(path: Path, seed: int) -> str:
    """Random requests that share their beginnings, some used often, with answers and tenants."""
    rng = random.Random(seed)
    words = ["shop", "order", "parcel", "refund", "blue", "green", "red", "late", "soon", "never", "please", "thanks"]
    heads = [" ".join(rng.choices(words, k=rng.randrange(5, 90))) for _ in range(9)]
    rows = []
    for _ in range(90):
        head = heads[min(int(rng.expovariate(0.5)), 8)]
        cut = head[: rng.randrange(10, len(head) + 1)] if rng.random() < 0.3 else head
        row: dict[str, Any] = {"prompt": f"{cut} {' '.join(rng.choices(words, k=rng.randrange(1, 40)))}"}
        row |= {"response": " ".join(rng.choices(words, k=rng.randrange(1, 12)))}
        if rng.random() < 0.2:
            row |= {"cache_salt": "other"}
        rows.append(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def log(tmp_path: Path) -> str:
    return written(tmp_path / "log.jsonl", 7)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def hit_tokens(capsys: pytest.CaptureFixture[str], log: str, *flags: str) -> int:
    hits: int = told(capsys, "profile", log, "--dry-run", "--no-advice", *flags)["totals"]["hit_tokens"]
    return hits


@pytest.mark.parametrize(("seed", "page"), [(1, 1), (2, 4), (3, 16)][:: 1 if NIGHTLY else 2])
def test_each_eviction_of_sglang_hits_what_a_profile_with_it_hits(
    tmp_path: Path, seed: int, page: int, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "log.jsonl", seed)
    pages = ("--rules", "sglang", "--page-size", str(page))
    found = told(capsys, "what-if", log, "--sweep", "policy", *pages, "--capacities", f"{640 // page},{1280 // page}")
    assert (found["rules"], found["block_size"]) == ("sglang", page)
    assert [(row["policy"], row["sure"]) for row in found["rows"]] == [
        *((policy, "exact") for policy in POLICIES for _ in range(2)),
        *(("opt", "bound") for _ in range(2)),
    ]
    bounds = {row["capacity"]: row["hit_blocks"] for row in found["rows"] if row["policy"] == "opt"}
    for number, row in enumerate(found["rows"]):
        assert row["hit_rate"] == pytest.approx(row["hit_blocks"] / row["references"])
        assert row["hit_blocks"] <= bounds[row["capacity"]] <= found["reachable_blocks"]
        if row["policy"] != "opt" and (NIGHTLY or (number + number // 2) % 2 == 0):  # each policy, at one capacity
            flags = (*pages, "--radix-eviction-policy", row["policy"], "--capacity", str(row["capacity"]))
            assert row["hit_blocks"] * page == hit_tokens(capsys, log, *flags)
    assert found["reachable_blocks"] * page == hit_tokens(capsys, log, *pages)
    if page == 1:
        prompts = told(capsys, "profile", log, "--dry-run", "--no-advice", *pages)["totals"]["prompt_tokens"]
        assert found["rows"][0]["references"] == prompts - found["requests"]
        assert len({row["hit_blocks"] for row in found["rows"] if row["capacity"] == 640}) > 2


def test_the_capacity_sweep_runs_sglang_with_the_eviction_that_was_said(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--rules", "sglang", "--radix-eviction-policy", "slru", "--protected-threshold", "3")
    found = told(capsys, "what-if", log, *flags, "--capacities", "600,900,100000", "--capacity", "900")
    assert [row["capacity"] for row in found["rows"]] == [600, 900, 100_000]
    assert found["capacity"] == 900
    for row in found["rows"]:
        assert row["policy"] is None
        assert row["hit_blocks"] == hit_tokens(capsys, log, *flags, "--capacity", str(row["capacity"]))
    assert any("radix_eviction_policy slru" in note for note in found["notes"])


def test_the_command_of_a_row_gives_it_again(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    for axis in (("--sweep", "policy"), ()):
        capacities = ("--capacities", "600,900") if not axis else ()
        for row in told(capsys, "what-if", log, "--rules=sglang", *axis, *capacities)["rows"][:: 1 if NIGHTLY else 3]:
            command = shlex.split(row["command"])
            assert command[0] == "kvtool"
            (again,) = told(capsys, *command[1:])["rows"]
            assert again == {**row, "command": again["command"]}


def test_default_capacities_run_every_request_and_small_ones_are_left_out(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = ("what-if", log, "--sweep", "policy", "--rules", "sglang")
    found = told(capsys, *sweep, "--policies", "lru")
    least = found["rows"][0]["capacity"]
    assert least < found["rows"][-1]["capacity"] == found["distinct_blocks"]
    some = told(capsys, *sweep, "--policies", "lru", "--capacities", f"0,{least - 1},{least}")
    assert [row["capacity"] for row in some["rows"]] == [least]
    assert f"left out: {least - 1} blocks, because SGLang needs at least {least} for all requests" in some["notes"]
    for capacity in (
        least - 1,
        least,
    ):  # where kvtool profile leaves requests out, the rows would not be of the same ones
        flags = ("--dry-run", "--no-advice", "--rules", "sglang", "--capacity", str(capacity))
        totals = told(capsys, "profile", log, *flags)["totals"]
        assert (totals["refused_requests"] > 0) == (capacity < least)
    assert run([*sweep, "--capacities", "5"]) == 2
    assert "no row was computed: left out: 5 blocks" in capsys.readouterr().err


def test_one_priority_is_said(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ("--sweep", "policy", "--rules", "sglang", "--capacities", "900")
    for policies, said in (("lru,priority", True), ("lru", False)):
        notes = told(capsys, "what-if", log, *sweep, "--policies", policies)["notes"]
        assert any("all requests have one priority" in note for note in notes) == said


def test_the_policy_of_vllm_is_what_a_profile_hits(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "what-if", log, "--sweep", "policy", "--capacities", "40,80")
    assert [(row["policy"], row["capacity"], row["sure"]) for row in found["rows"]] == [
        ("lru", 40, "exact"),
        ("lru", 80, "exact"),
        ("opt", 40, "bound"),
        ("opt", 80, "bound"),
    ]
    assert any("vLLM has only LRU" in note for note in found["notes"])
    bounds = told(capsys, "what-if", log, "--sweep", "policy", "--policies", "opt", "--capacities", "1,40,80")
    assert bounds["rows"][1:] == found["rows"][2:]
    assert bounds["notes"] == []
    for row, bound in zip(found["rows"][:2], found["rows"][2:], strict=True):
        assert row["hit_blocks"] * 16 == hit_tokens(capsys, log, "--capacity", str(row["capacity"]))
        assert row["hit_blocks"] <= bound["hit_blocks"]
    assert told(capsys, "what-if", log, "--sweep", "policy", "--policies", "lru")["rows"][0]["capacity"] > 1


def test_processes_count_the_same(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ("what-if", log, "--sweep", "policy", "--rules", "sglang")
    assert told(capsys, *sweep, "--jobs", "2")["rows"][0]["hit_blocks"] == told(capsys, *sweep)["rows"][0]["hit_blocks"]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("axis", ["policy", "capacity"])
def test_nothing_is_wider_than_the_terminal(
    log: str, axis: str, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", log, "--rules", "sglang", "--sweep", axis, "--width", str(width)]) == 0
    shown = capsys.readouterr().out
    assert "a block is a page of 1 token" in shown
    assert "one list of blocks" not in shown
    assert all(len(line) <= width for line in shown.splitlines())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--sweep", "policy", "--policies", "fifo"], "vLLM has only LRU"),
        (["--sweep", "policy", "--policies", "slru"], "use --rules sglang"),
        (["--sweep", "policy", "--policies", "priority", "--rules", "block-lru"], "of SGLang"),
        (["--sweep", "policy", "--policies", "fifo", "--rules", "sglang"], "SGLang has no policy fifo"),
        (["--sweep", "policy", "--capacities", "1"], "too few for the longest request"),
        (["--rules", "sglang", "--sweep", "ttl"], "--sweep ttl supports --rules vllm or block-lru"),
        (["--rules", "sglang", "--sweep", "routing"], "--sweep routing supports --rules vllm or block-lru"),
        (["--rules", "sglang", "--sample", "0.5"], "--sample supports a list of blocks"),
        (["--rules", "sglang", "--sweep", "policy", "--block-size", "16"], "--page-size"),
        (["--rules", "trtllm", "--sweep", "policy"], "lowest priority"),
        (["--rules", "llamacpp", "--sweep", "policy"], "the oldest saved prompt"),
        (["--rules", "all"], "compare-engines"),
        (["--sweep", "policy", "--model", "gpt-oss-20b"], "several groups of layers"),
        (["--page-size", "4"], "--rules sglang"),
    ],
)
def test_what_an_engine_does_not_have_is_said(
    log: str, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", log, *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_rules_of_a_workload_file_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(
        "version: 1\nengine: {rules: sglang, page_size: 2}\n"
        "groups:\n  - {name: a, requests: 3, messages: [{role: user, text: one two three}]}\n"
    )
    found = told(capsys, "what-if", str(path), "--sweep", "policy")
    assert (found["rules"], found["block_size"]) == ("sglang", 2)
    assert told(capsys, "what-if", str(path))["rules"] == "sglang"
