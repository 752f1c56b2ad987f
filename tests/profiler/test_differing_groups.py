"""A log of which one group's reports differ from the rules: nothing is advised of that group, and the others keep their advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import Command

RULES = "\n".join(
    f"Rule {n}: answer questions about topic {n} by the section that the handbook names." for n in range(40)
)
TOKENS = 2_200


def claude(number: int) -> dict[str, Any]:
    """A clock before the marked rules: nothing is read, as predicted."""
    text = f"You help.\nNow: 2026-11-20T10:{number:02d}:00Z\n{RULES}"
    system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    usage = {"input_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": TOKENS, "output_tokens": 3}
    asked = [{"role": "user", "content": f"What of {number}?"}]
    return {
        "request": {"model": "claude-sonnet-4-5", "system": system, "messages": asked},
        "response": {"usage": usage},
    }


def gpt(number: int, cached: int) -> dict[str, Any]:
    """The same rules each time, of which nothing is read: the rules say otherwise."""
    messages = [{"role": "system", "content": "You help.\n" + RULES}, {"role": "user", "content": f"What of {number}?"}]
    usage = {"prompt_tokens": TOKENS, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}
    return {"request": {"model": "gpt-4.1", "messages": messages}, "response": {"usage": usage}}


def profiled(kvtool: Command, records: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    dated = [{"timestamp": 1_790_000_000 + 20 * at, **record} for at, record in enumerate(records)]
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in dated))
    _, out, err = kvtool("profile", "log.jsonl", "--group-by", "request.model", "--json")
    assert out, err
    return json.loads(out), kvtool("profile", "log.jsonl", "--group-by", "request.model")[1]


def test_only_the_group_that_differs_gets_no_advice(in_folder: Command) -> None:
    records = [each for n in range(12) for each in (claude(n), gpt(n, cached=0))]
    report, shown = profiled(in_folder, records)
    assert report["misses"]["calibration"]["advises"] is False
    assert report["misses"]["calibration"]["differing"] == ["gpt-4.1"]
    fixed = [each for each in report["findings"] if each["rerun"] is not None]
    assert {(each["group"], each["code"]) for each in fixed} == {("claude-sonnet-4-5", "KV101")}
    assert "kvtool optimize log.jsonl" in shown
    assert "kvtool advises no change of group gpt-4.1" in " ".join(shown.split())
    _, out, err = in_folder("what-if", "log.jsonl")
    assert out, err
    assert "Change first: edit the prompts" in " ".join(out.split())


def test_all_groups_that_differ_get_none(in_folder: Command) -> None:
    report, shown = profiled(in_folder, [gpt(n, cached=0) for n in range(12)])
    assert report["misses"]["calibration"]["differing"] == ["gpt-4.1"]
    assert all(each["rerun"] is None for each in report["findings"])
    assert "kvtool optimize" not in shown
    _, out, err = in_folder("what-if", "log.jsonl")
    assert out, err
    assert "Change first" not in out
    _, out, err = in_folder("optimize", "log.jsonl", "--allow", "P2")
    assert "kvtool advises no change of group log from predictions" in " ".join(out.split()), err
    assert "verified" not in out


def test_that_all_misses_are_of_one_model_says_nothing_of_their_cause(in_folder: Command) -> None:
    """Another model reads all that it could: the fields in which the two differ separate hits from misses, and cause none."""
    records = []
    for n in range(12):
        good = claude(n)
        good["request"]["system"][0]["text"] = f"You help.\n{RULES}"
        read, written = (0, TOKENS) if n == 0 else (TOKENS, 0)
        good["response"]["usage"] |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        records += [good, gpt(n, cached=0)]
    report, _ = profiled(in_folder, records)
    assert report["misses"]["causes"]["provider"]["events"] >= 8
    assert report["misses"]["separation"] is None
