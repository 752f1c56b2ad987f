"""Requests that come together under SGLang's rules: the queue's own hits, a fate for each loss, settings tried by running again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.cli.app import run
from kvtool.engine.rules.rule_set import RuleRequest
from kvtool.engine.rules.sglang import SGLANG
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_queue import SglangQueue
from kvtool.workload.drive import in_waves
from kvtool.workload.turn import Output, Turn

Capture = pytest.CaptureFixture[str]


def asked(prompt: list[int]) -> RuleRequest:
    return RuleRequest(np.array(prompt, np.int32), np.array([7, 8], np.int32))


@given(
    prompts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=20),
    size=st.integers(1, 5),
    policy=st.sampled_from(["fcfs", "lpm", "dfs-weight"]),
)
def test_wave_by_wave_is_what_the_queue_does_with_all_arrivals(
    prompts: list[list[int]], size: int, policy: str
) -> None:
    options = SglangOptions(schedule_policy=policy, max_total_tokens=200)
    waves = [[asked(prompt) for prompt in prompts[at : at + size]] for at in range(0, len(prompts), size)]
    whole = SglangQueue(options).serve(waves)
    assert SGLANG.queue is not None
    queue = SGLANG.queue(options)
    assert [hit for wave in waves for hit in queue.serve_together(wave)] == whole.cached
    assert queue.num_evicted == sum(whole.evicted)
    assert queue.num_tokens == whole.num_tokens


class Talk:
    """Turns by name; the first letter is their group."""

    def __init__(self, name: str, turns: int) -> None:
        self.left = [Turn(name, id=f"{name}{turn}") for turn in range(turns)]

    def next_turn(self, previous: Output | None) -> Turn | None:
        del previous
        return self.left.pop(0) if self.left else None


class Done:
    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    def output(self) -> Output:
        return Output("")


def waves_of(talks: list[Talk], size: int, *, refused: str = "", first_alone: bool = False) -> list[list[str]]:
    waves: list[list[str]] = []
    ended: list[str] = []

    def begin(turn: Turn) -> Any:
        return None if turn.id == refused else Done(turn)

    def execute(jobs: Any) -> None:
        waves.append([job.turn.id for job in jobs])

    def end(job: Any) -> None:
        ended.append(job.turn.id)

    in_waves(iter(talks), size, begin, execute, end, first_alone=first_alone)
    assert ended == [name for wave in waves for name in wave]
    return [wave for wave in waves if wave]


def test_waves_take_one_request_of_each_conversation() -> None:
    assert waves_of([Talk("a", 2), Talk("b", 2)], 2) == [["a0", "b0"], ["a1", "b1"]]
    assert waves_of([Talk("a", 2), Talk("b", 2)], 2, refused="a0") == [["b0"], ["a1", "b1"]]
    assert waves_of([Talk("a", 1), Talk("a", 1), Talk("b", 1)], 3, first_alone=True) == [["a0", "b0"], ["a0"]]
    assert waves_of([], 2) == []


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.jsonl"
    heads = ["You are the agent of a shop. Be short, be kind. " * 30, "Answer as the library does: by the book. " * 30]
    rows = [{"prompt": heads[at % 2] + f"Question {at}: what of order {at * 7}?"} for at in range(16)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def told(capsys: Capture, log: str, tokenizer: str, *flags: str) -> dict[str, Any]:
    arguments = ["profile", log, "--rules", "sglang", "--json", "--dry-run", "--quiet", "-t", tokenizer, *flags]
    assert run(arguments) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_comes_together_waits_for_nobody(log: str, bytes_json: str, capsys: Capture) -> None:
    alone = told(capsys, log, bytes_json)
    together = told(capsys, log, bytes_json, "--concurrency", "8")
    assert sum(together["fates"].values()) == together["totals"]["prompt_tokens"]
    lost = alone["totals"]["hit_tokens"] - together["totals"]["hit_tokens"]
    assert together["fates"]["in_flight"] == lost > 0
    findings = [each for each in together["findings"] if each["code"] == "KV303"]
    assert sum(finding["tokens_lost"] for finding in findings) == lost
    assert all("send one request of each group first" in finding["fix"] for finding in findings)
    assert all(finding["tried"]["total_after"] > together["totals"]["hit_rate"] for finding in findings)


def test_a_small_pool_evicts_beside_what_is_in_flight(log: str, bytes_json: str, capsys: Capture) -> None:
    found = told(capsys, log, bytes_json, "--concurrency", "4", "--max-total-tokens", "2400", "--no-advice")
    assert {"evicted", "in_flight"} <= found["fates"].keys()
    assert sum(found["fates"].values()) == found["totals"]["prompt_tokens"]
    assert found["config"]["schedule_policy"] == "fcfs"


def test_a_queue_without_anybody_who_waits(log: str, bytes_json: str, capsys: Capture) -> None:
    assert run(["profile", log, "--rules", "sglang", "--schedule-policy", "lpm", "-t", bytes_json]) == 2
    assert "--concurrency N" in capsys.readouterr().err
    assert run(["profile", log, "--rules", "trtllm", "--concurrency", "4", "-t", bytes_json]) == 2
    assert "one request at a time" in capsys.readouterr().err
