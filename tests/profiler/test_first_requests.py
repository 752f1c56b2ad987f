"""The first request of a group beside prompts of other groups: what only those contain is no fault of the group."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

WORDS = ["claim", "water", "fire", "theft", "letter", "garage", "tariff", "amount", "branch"]


def record(service: str, system: str, question: str) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return json.dumps({"service": service, "request": {"model": "m", "messages": messages}})


@pytest.mark.parametrize("seed", range(4))
def test_a_clock_of_another_group_is_not_told(in_folder: Callable[..., tuple[int, str, str]], seed: int) -> None:
    chance = random.Random(seed)
    rules = "".join(f"{number}. {' '.join(chance.choices(WORDS, k=10))}.\n" for number in range(60))
    hours = [f"Now: 2026-11-27 08:{chance.randrange(60):02}:{number:02}\n" for number in range(8)]
    clocks = [record("status", f"{hour}{rules}", f"Where is {number}?") for number, hour in enumerate(hours)]
    plain = [record("rag", rules, f"Question {number}?") for number in range(chance.randint(2, 6))]
    Path("log.jsonl").write_text("\n".join([*clocks, *plain]) + "\n")
    words = ["profile", "log.jsonl", "--group-by", "service", "--rules", "vllm", "--json"]
    found = json.loads(in_folder(*words)[1])["findings"]
    assert "KV101" in {each["code"] for each in found if each["group"] == "status"}
    assert "KV101" not in {each["code"] for each in found if each["group"] == "rag"}


def test_a_clock_in_groups_of_one_request_is_told(in_folder: Callable[..., tuple[int, str, str]]) -> None:
    """Each group's own text has the clock: it is a fault across groups."""
    rules = "".join(f"{number}. {' '.join(random.Random(number).choices(WORDS, k=10))}.\n" for number in range(60))
    records = [record(f"s{at}", f"Now: 2026-11-27 08:{at:02}:11\n{rules}", "Go on.") for at in range(6)]
    Path("log.jsonl").write_text("\n".join(records) + "\n")
    words = ["profile", "log.jsonl", "--group-by", "service", "--rules", "vllm", "--json"]
    causes = json.loads(in_folder(*words)[1])["causes"]
    assert any(each["code"] == "KV101" and each["blame_tokens"] for each in causes)
