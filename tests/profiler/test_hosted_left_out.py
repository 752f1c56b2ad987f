"""Requests of hosted models in a log whose other models run on the user's own server."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command, some

OWN = ["Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B-Instruct"]
HOSTED = ["gpt-4o-2024-11-20", "claude-sonnet-4-5", "gemini-2.5-flash"]


def written(seed: int, hosted: int, own: int) -> tuple[str, str]:
    """Write a log of both kinds in a random order, and one of the own models' requests alone."""
    r = random.Random(seed)
    kinds = [True] * hosted + [False] * own
    r.shuffle(kinds)
    rules = " ".join(f"Rule {number}: answer point {r.randrange(99)} first." for number in range(60))
    both, alone = [], []
    for is_hosted in kinds:
        messages = [{"role": "system", "content": rules}, {"role": "user", "content": f"Question {r.randrange(9**9)}?"}]
        body = json.dumps({"model": r.choice(HOSTED if is_hosted else OWN), "messages": messages})
        both.append(body)
        alone += [] if is_hosted else [body]
    for name, lines in (("both.jsonl", both), ("alone.jsonl", alone)):
        Path(name).write_text("\n".join(lines) + "\n")
    return "both.jsonl", "alone.jsonl"


def profiled(command: Command, *arguments: str) -> dict[str, Any]:
    code, out, err = command("profile", *arguments, "--json", "--measure-budget", "0")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("seed", some(range(4), 1))
def test_the_own_models_have_the_figures_of_a_log_without_the_hosted_ones(in_folder: Command, seed: int) -> None:
    hosted = random.Random(seed).randint(1, 14)
    both, alone = written(seed, hosted=hosted, own=17)
    mixed, own = profiled(in_folder, both), profiled(in_folder, alone)
    assert mixed["totals"].pop("unpredicted_requests", 0) == hosted
    own["totals"].pop("unpredicted_requests", None)
    assert (mixed["totals"], mixed["fates"]) == (own["totals"], own["fates"])
    assert {group["name"] for group in mixed["groups"]} <= set(OWN)


def test_all_commands_plan_for_the_same_requests(in_folder: Command) -> None:
    both, _ = written(7, hosted=9, own=20)
    tokens = profiled(in_folder, both)["totals"]["prompt_tokens"]
    engines = json.loads(in_folder("compare-engines", both, "--json")[1])
    assert (engines["requests"], engines["prompt_tokens"]) == (20, tokens)
    assert json.loads(in_folder("what-if", both, "--json")[1])["requests"] == 20


def test_the_note_gives_the_flag_that_profiles_them_alone(in_folder: Command) -> None:
    both, _ = written(3, hosted=9, own=20)
    notes = profiled(in_folder, both)["notes"]
    note = next(note for note in notes if "not predicted" in note)
    assert note.startswith("9 requests not predicted: a provider's cache served ")
    words = shlex.split(note.partition("Profile them alone with ")[2])
    assert words[::2] == ["--group"] * len(words[1::2])
    assert profiled(in_folder, both, *words)["totals"]["requests"] == 9


def test_the_bill_of_the_providers_is_that_of_their_requests_alone(in_folder: Command) -> None:
    both, _ = written(8, hosted=9, own=20)
    usage = {"prompt_tokens": 4_000, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2_000}}
    calls = [
        {"request": json.loads(line), "response": {"usage": usage}} for line in Path(both).read_text().splitlines()
    ]
    Path(both).write_text("\n".join(map(json.dumps, calls)))
    hosted = [each for each in calls if each["request"]["model"] in HOSTED]
    Path("hosted.jsonl").write_text("\n".join(map(json.dumps, hosted)))
    money, alone = (profiled(in_folder, path, "--dry-run")["money"] for path in (both, "hosted.jsonl"))
    assert (money["paid"], money["without_cache"]) == (alone["paid"], alone["without_cache"])
    assert (money["priced_requests"], money["requests"], alone["requests"]) == (9, 29, 9)
    out = in_folder("profile", both, "--dry-run", "--no-advice")[1]
    assert "for 9 of 29 requests" in " ".join(out.split())
    assert "No bill covers the 20 requests to your own server." in out


def test_a_server_that_is_asked_for_gets_all_requests(in_folder: Command) -> None:
    both, _ = written(5, hosted=6, own=20)
    assert profiled(in_folder, both, "--block-size", "16")["totals"]["requests"] == 26


def test_a_trace_keeps_the_requests_of_all_servers(in_folder: Command) -> None:
    both, _ = written(6, hosted=5, own=20)
    code, _, err = in_folder("trace", both, "-o", "blocks")
    assert code == 0, err
    assert profiled(in_folder, "blocks")["totals"]["requests"] == 25


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_the_command_of_the_note_selects_exactly_the_requests_that_are_left_out(in_folder: Command, seed: int) -> None:
    """Groups are teams, each with hosted and own models, whose name is in a field of a random place."""
    r = random.Random(seed)
    around = r.choice(["request", "body"])
    hosted = r.random() < 0.5
    names = r.sample(HOSTED, 2) + r.sample(OWN, r.randint(1, 2))
    counted = [names[0]] * (25 if hosted else 6) + [names[1]] * (25 if hosted else 6)
    counted += [r.choice(names[2:]) for _ in range(15 if hosted else 40)]
    r.shuffle(counted)
    prompts = [" ".join(f"{team} rule {n} {r.randrange(99)}." for n in range(60)) for team in "ab"]
    lines: list[str] = []
    left: dict[str, int] = {}
    for at, model in enumerate(counted):
        messages = [{"role": "system", "content": r.choice(prompts)}, {"role": "user", "content": f"Question {at}?"}]
        body = {"model": model, "messages": messages}
        lines.append(json.dumps({"id": f"r{at}", "team": r.choice("ab"), around: body}))
        if (model in HOSTED) != hosted:
            left[model] = left.get(model, 0) + 1
    Path("both.jsonl").write_text("\n".join(lines) + "\n")
    found = profiled(in_folder, "both.jsonl", "--group-by", "team")
    note = next((note for note in found["notes"] if "not predicted" in note), None)
    assert note is not None, (found["notes"], found["totals"])
    words = shlex.split(note.partition("Profile them alone with ")[2])
    assert words[:2] == ["--group-by", f"{around}.model"]
    assert dict.fromkeys(words[3::2]) == dict.fromkeys(left)
    alone = profiled(in_folder, "both.jsonl", *words)
    assert {group["name"]: group["requests"] for group in alone["groups"]} == left
