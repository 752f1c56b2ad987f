"""The first request of a group beside prompts of other groups: what only those contain is no fault of the group."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import some

WORDS = ["claim", "water", "fire", "theft", "letter", "garage", "tariff", "amount", "branch"]


def record(service: str, system: str, question: str) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return json.dumps({"service": service, "request": {"model": "m", "messages": messages}})


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_a_clock_of_another_group_is_not_told(in_folder: Callable[..., tuple[int, str, str]], seed: int) -> None:
    chance = random.Random(seed)
    rules = "".join(f"{number}. {' '.join(chance.choices(WORDS, k=10))}.\n" for number in range(60))
    hours = [f"Now: 2026-11-27 08:{chance.randrange(60):02}:{number:02}\n" for number in range(8)]
    clocks = [record("status", f"{hour}{rules}", f"Where is {number}?") for number, hour in enumerate(hours)]
    plain = [record("rag", rules, f"Question {number}?") for number in range(chance.randint(2, 6))]
    Path("log.jsonl").write_text("\n".join([*clocks, *plain]) + "\n")
    words = ["profile", "log.jsonl", "--group-by", "service", "--rules", "vllm", "--dry-run", "--json"]
    found = json.loads(in_folder(*words)[1])["findings"]
    assert "KV101" in {each["code"] for each in found if each["group"] == "status"}
    assert "KV101" not in {each["code"] for each in found if each["group"] == "rag"}


def test_a_clock_in_groups_of_one_request_is_told(in_folder: Callable[..., tuple[int, str, str]]) -> None:
    """Each group's own text has the clock: it is a fault across groups."""
    rules = "".join(f"{number}. {' '.join(random.Random(number).choices(WORDS, k=10))}.\n" for number in range(60))
    records = [record(f"s{at}", f"Now: 2026-11-27 08:{at:02}:11\n{rules}", "Go on.") for at in range(6)]
    Path("log.jsonl").write_text("\n".join(records) + "\n")
    words = ["profile", "log.jsonl", "--group-by", "service", "--rules", "vllm", "--dry-run", "--json"]
    causes = json.loads(in_folder(*words)[1])["causes"]
    assert any(each["code"] == "KV101" and each["blame_tokens"] for each in causes)


@pytest.mark.parametrize("requests", [4, 9])
def test_the_first_request_of_a_group_is_not_blocked_by_its_own_value(
    in_folder: Callable[..., tuple[int, str, str]], requests: int
) -> None:
    """Beside other groups it differs from those earlier, and at another token."""
    rules = "".join(f"{number}. {' '.join(random.Random(number).choices(WORDS, k=10))}.\n" for number in range(20))
    hours = [f"You help with letters.\nNow: 2026-11-27 08:0{at}:11\n{rules}" for at in range(requests)]
    records = [record("other", f"You translate. {rules}", f"Which {at}?") for at in range(3)]
    records += [record("clock", hour, f"Where is {at}?") for at, hour in enumerate(hours)]
    Path("log.jsonl").write_text("\n".join(records) + "\n")
    words = ["profile", "log.jsonl", "--group-by", "service", "--rules", "vllm", "--dry-run", "--json"]
    report = json.loads(in_folder(*words)[1])
    found = next(each for each in report["findings"] if each["group"] == "clock" and each["code"] == "KV101")
    assert f"blocks {requests - 1} requests, first at token " in found["message"]
    token = int(found["message"].partition("first at token ")[2].partition(",")[0])
    assert token >= len("You help with letters.\nNow: 2026-11-27 08:0")


def test_prompts_below_the_minimum_tell_one_story(in_folder: Callable[..., tuple[int, str, str]]) -> None:
    rules = "1. Answer in one line, from the handbook alone.\n"
    records = [
        record("help", f"Now: 2026-11-27 08:0{at}:11\n{rules}", f"Where is {at}?").replace('"m"', '"gpt-4.1"')
        for at in range(6)
    ]
    Path("log.jsonl").write_text("\n".join(records) + "\n")
    assert json.loads(in_folder("profile", "log.jsonl", "--dry-run", "--json")[1])["findings"] == []
    shown = in_folder("profile", "log.jsonl", "--dry-run")[1]
    assert "all prompts are shorter than 1,024 tokens" in shown
    assert "Nothing to change" in shown
    for other in ("KV101", "timestamp", "diff-prompts", "breakdown", "blocked"):
        assert other not in shown
