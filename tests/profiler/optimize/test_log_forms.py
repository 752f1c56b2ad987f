"""Logs of many forms: each is written back in its own form, and a run of it reaches what was promised."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command
from tests.profiler.optimize.hosted_logs import MARK, HostedLog

Body = dict[str, Any]

CLAUDE = HostedLog("anthropic", 5, ("system",), {"time": 1}, sessions=8)
OPENAI = HostedLog("openai-5.6", 4, (), {"time": 1}, sessions=8)
GEMINI = HostedLog("gemini", 3, (), {"time": 1}, rules=270, sessions=8)


def question(body: Body) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def gemini(body: Body) -> Body:
    system, asked = {"parts": [{"text": body["messages"][0]["content"]}]}, {"parts": [{"text": question(body)}]}
    request = {"systemInstruction": system, "contents": [{"role": "user", **asked}]}
    return {"model": body["model"], "timestamp": body["timestamp"], "request": request}


def responses(body: Body) -> Body:
    asked = [{"role": "user", "content": [{"type": "input_text", "text": question(body)}]}]
    return {**body, "instructions": body["messages"][0]["content"], "input": asked, "messages": None}


def developer(body: Body) -> Body:
    said = [
        {"role": "developer", "content": body["messages"][0]["content"]},
        {"role": "user", "content": question(body)},
    ]
    return {"timestamp": body["timestamp"], "model": body["model"], "input": said}


def batch(body: Body) -> Body:
    return {"custom_id": body.pop("timestamp"), "params": body}


def langsmith(body: Body) -> Body:
    said = [("SystemMessage", body["system"]), ("HumanMessage", question(body))]
    messages = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": {"content": text}}
        for name, text in said
    ]
    extra = {"invocation_params": {"model": body["model"]}}
    return {"run_type": "llm", "start_time": body["timestamp"], "inputs": {"messages": [messages]}, "extra": extra}


def litellm(body: Body) -> Body:
    messages = [{"role": "system", "content": body["system"]}, {"role": "user", "content": question(body)}]
    named = {"call_type": "acompletion", "model": f"anthropic/{body['model']}", "model_parameters": {"max_tokens": 9}}
    return {"id": body["timestamp"], "startTime": body["timestamp"], "messages": messages, **named}


def agent(body: Body) -> Body:
    """A loop of tools whose last result is marked: no text may come into it."""
    call = {"type": "tool_use", "id": "t1", "name": "get", "input": {"n": 1}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "twelve parcels", **MARK}
    more = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return {**body, "messages": [*body["messages"], *more]}


@pytest.mark.parametrize(
    ("log", "form"),
    [
        (GEMINI, gemini),
        (OPENAI, responses),
        (OPENAI, developer),
        (CLAUDE, batch),
        (CLAUDE, langsmith),
        (CLAUDE, litellm),
        (CLAUDE, agent),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_log_is_written_back_in_its_own_form(
    in_folder: Command, log: HostedLog, form: Callable[[Body], Body]
) -> None:
    records = [form(body) for body in log.bodies()]
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    _, out, _ = in_folder("optimize", "log.jsonl", "--allow", "P2", "-o", "better.jsonl", "--json")
    edited = json.loads(out)["edited_log"]
    assert (edited["requests"], edited["left_as_they_are"]) == (len(records), {})
    _, out, _ = in_folder("profile", "better.jsonl", "--no-advice", "--json")
    found = json.loads(out)
    assert edited["hit_rate"]["after"] == pytest.approx(found["totals"]["hit_rate"])
    assert edited["hit_rate"]["after"] > 0.5
    assert Decimal(edited["cost"]["after"]) == Decimal(found["money"]["predicted"])
    for before, line in zip(records, Path("better.jsonl").read_text().splitlines(), strict=True):
        after = json.loads(line)
        assert after.keys() - {"prompt_cache_options"} == before.keys()
        assert sorted(words(after)) == sorted(words(before)), "nothing is lost or invented"


_ADDED = ("type", "role", "prompt_cache_options", "prompt_cache_breakpoint")


def words(value: Any) -> list[str]:
    """All words of a record but the types and marks of blocks, of which there may be more."""
    if isinstance(value, dict):
        held = [words(each) for name, each in value.items() if name not in _ADDED]
        return [word for each in held for word in each]
    if isinstance(value, list):
        return [word for each in value for word in words(each)]
    return str(value).split() if value is not None else []


def test_what_has_no_place_in_its_record_is_left_and_counted(in_folder: Command) -> None:
    """A conversation that is one record of many requests is not rewritten."""
    messages = [{"role": "system", "content": "Time: 10:00\n" + "Rule of the house.\n" * 90}]
    lines = []
    for number in range(6):
        head = {"role": "system", "content": messages[0]["content"].replace("10:00", f"1{number}:31")}
        said = [{"role": role, "content": f"{role} {number} {at}"} for at in range(3) for role in ("user", "assistant")]
        lines.append(json.dumps({"messages": [head, *said]}))
    Path("log.jsonl").write_text("\n".join(lines))
    _, out, _ = in_folder("optimize", "log.jsonl", "--allow", "P2", "--rules", "vllm", "--json")
    assert json.loads(out)["edited_log"] is None
