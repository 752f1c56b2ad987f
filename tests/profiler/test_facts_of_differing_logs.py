"""A difference of order in a log whose usage no prediction follows: it is a fact of the text, and told as a finding."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command

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


@pytest.mark.parametrize("seed", range(3))
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
