"""A difference of order in a log whose usage no prediction follows: it is a fact of the text, and told as a finding."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kvtool.text.terminal.numbers import percent
from tests.conftest import Command, some

WORDS = ["river", "stone", "lamp", "cloud", "green", "table", "letter", "window", "garden", "silver"]


def written(seed: int, *, shuffled: bool) -> None:
    """Write requests with one set of tools, whose server counts other tokens than kvtool, and not always as many more."""
    r = random.Random(seed)
    tools: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": " ".join(r.choices(WORDS, k=60))}}
        for n in range(8)
    ]
    lines = []
    for at in range(24):
        if shuffled:
            r.shuffle(tools)
        system = " ".join(WORDS * 20)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Question {at}?"}]
        prompt = 1_400 + r.randrange(300)
        cached = 0 if at == 0 else 16 * r.randrange(20, 60)
        usage = {"prompt_tokens": prompt, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}
        request = {"model": "Qwen/Qwen3-32B", "messages": messages, "tools": tools}
        lines.append(json.dumps({"request": request, "response": {"usage": usage}}))
    Path("log.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_shuffled_tools_are_a_finding_without_a_gain(in_folder: Command, seed: int) -> None:
    written(seed, shuffled=True)
    report = json.loads(in_folder("profile", "log.jsonl", "--measure-budget", "0", "--json")[1])
    assert not report["misses"]["calibration"]["advises"]
    found = [each for each in report["findings"] if each["code"] == "KV111"]
    assert len(found) == 1
    assert found[0]["rerun"] is None
    assert found[0]["tokens_lost"] == report["fates"]["cosmetic"]
    assert found[0]["fix"].startswith("sort the tools by name. The gain is not verified")
    shown = " ".join(in_folder("profile", "log.jsonl", "--measure-budget", "0")[1].split())
    assert "Next Sort the tools by name. Compare two such requests" in shown


def test_tools_in_one_order_are_none(in_folder: Command) -> None:
    written(4, shuffled=False)
    report = json.loads(in_folder("profile", "log.jsonl", "--measure-budget", "0", "--json")[1])
    assert not [each for each in report["findings"] if each["code"] == "KV111"]


def test_why_has_the_remedy_and_the_tokens_of_profile(in_folder: Command) -> None:
    written(5, shuffled=True)
    report = json.loads(in_folder("profile", "log.jsonl", "--measure-budget", "0", "--json")[1])
    told = json.loads(in_folder("why", "log.jsonl", "--json")[1])
    cause = next(each for each in told["causes"] if each["cause"] == "prompts")
    changed = report["misses"]["causes"]
    assert cause["tokens"] == sum(
        changed[name]["tokens"] for name in ("prompt_changed", "tools_changed") if name in changed
    )
    assert "KV111: Order of tools" in cause["why"]
    assert cause["change"].startswith("Sort the tools by name.")
    shown = " ".join(in_folder("why", "log.jsonl")[1].split())
    assert "lost to changes in the prompts" in shown
    assert " 0 tokens that the server missed" not in shown


def shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their front."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) > 1), len(one))


def with_a_clock(seed: int, *, line: int, lost: float) -> None:
    """Write requests with a clock on a line of their instructions, of which the provider loses some."""
    r = random.Random(seed)
    rules = [f"Rule {n}: {' '.join(r.choices(WORDS, k=10))}." for n in range(160)]
    records, sent = [], list[str]()
    for n in range(18):
        clock = f"Now: 2026-11-20T10:{n:02}:{r.randrange(60):02}Z"
        system = "\n".join([*rules[:line], clock, *rules[line:]])
        longest = max((shared(system, each) for each in sent), default=0) // 5 // 128 * 128
        cached = 0 if longest < 1_024 or r.random() < lost else longest
        sent.append(system)
        usage = {"prompt_tokens": len(system) // 5 + 9, "prompt_tokens_details": {"cached_tokens": cached}}
        messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Question {n}?"}]
        request = {"model": "gpt-4o-2024-08-06", "messages": messages}
        records.append({"timestamp": f"2026-11-20T10:{n:02}:00Z", "request": request, "response": {"usage": usage}})
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("seed", some(range(4), 1))
def test_a_loss_that_reports_prove_counts_where_advice_is_withheld(in_folder: Command, seed: int) -> None:
    with_a_clock(seed, line=random.Random(seed).randrange(110, 130), lost=0.4)
    code, out, _ = in_folder("check", "log.jsonl", "--error-on", "KV101", "--json")
    document = json.loads(out)
    [finding] = [each for each in document["findings"] if each["code"] == "KV101"]
    assert (code, finding["rerun"]) == (1, None)
    assert finding["fix"].endswith("The gain is not verified, as reports and rules differ")
    agree = document["reports"][0]["misses"]["calibration"]
    share = percent(agree["agree"] / agree["requests"])
    assert agree["agree"] < 0.9 * agree["requests"]
    why = f"; no fix advised: prediction and report agree for {share} of requests"
    assert document["verdict"]["sentence"] == f"FAIL 1 gate (1 finding of KV101){why}"
    assert f"in 1 input{why}" in " ".join(in_folder("lint", "log.jsonl")[1].split())


def test_advice_is_not_said_to_be_withheld_where_reports_agree(in_folder: Command) -> None:
    with_a_clock(7, line=120, lost=0.0)
    verdict = json.loads(in_folder("check", "log.jsonl", "--error-on", "KV105", "--json")[1])["verdict"]
    assert verdict["sentence"] == "PASS 1 gate, 1 error allowed: KV101 at log.jsonl:2"
    with_a_clock(7, line=160, lost=0.4)
    assert in_folder("check", "log.jsonl", "--error-on", "KV101")[0] == 0  # the clock costs nothing there


def test_optimize_and_profile_count_in_the_tokens_of_the_provider(in_folder: Command) -> None:
    with_a_clock(8, line=120, lost=0.0)
    report = json.loads(in_folder("profile", "log.jsonl", "--measure-budget", "0", "--json")[1])
    edited = json.loads(in_folder("optimize", "log.jsonl", "--allow", "P2", "--json")[1])
    assert edited["hit_rate"]["before"] == report["predicted"]["hit_rate"] != report["totals"]["hit_rate"]
    assert edited["edited_log"]["hit_rate"]["after"] == report["money"]["fixed_hit_rate"]
    assert report["findings"][0]["rerun"]["group_after"] != report["money"]["fixed_hit_rate"]
