"""Tool calls that an application sends back: as the model wrote them they are read from the cache, re-serialised they are named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.fixes.forms.resent_calls import RESEND_CALLS, ResentCalls
from kvtool.text.message import answer_message
from kvtool.workload.logs.records.record import text_of
from kvtool.workload.turn import Turn
from tests.conftest import some


def made_log(path: Path, seed: int, model: str, *, sorted_keys: bool) -> str:
    """Write a conversation of tool calls whose arguments the model writes with its own order of keys."""
    source = random.Random(seed)

    def words(count: int) -> str:
        return " ".join(source.choice(("alpha", "beta", "gamma", "delta")) for _ in range(count))

    messages: list[dict[str, Any]] = [{"role": "system", "content": words(900)}, {"role": "user", "content": "Go."}]
    lines = []
    for number in range(8):
        arguments = {"path": words(3), "edits": [{"old": words(60), "new": words(60)}], "because": words(20)}
        wrote = json.dumps(arguments)
        call = {"id": f"c{number}", "type": "function", "function": {"name": "edit", "arguments": wrote}}
        text = source.choice((None, words(5)))
        answer = {"role": "assistant", "content": text, "tool_calls": [call]}
        assert answer_message(text_of(answer)) == answer
        record = {"session_id": "s", "timestamp": f"2026-11-20T09:00:{number:02}Z"}
        request = {"model": model, "messages": list(messages)}
        lines.append({**record, "request": request, "response": {"choices": [{"message": answer}]}})
        sent = json.dumps(arguments, sort_keys=True, separators=(",", ":")) if sorted_keys else wrote
        again = {**answer, "tool_calls": [{**call, "function": {"name": "edit", "arguments": sent}}]}
        messages += [again, {"role": "tool", "tool_call_id": f"c{number}", "content": "ok"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("seed", some(range(3), 1))
@pytest.mark.parametrize("model", ["gpt-4o", "qwen3-14b"])
def test_only_re_serialised_calls_are_a_difference_and_the_fix_is_proven(
    seed: int, model: str, tmp_path: Path, bytes_json: str
) -> None:
    same = kvtool.profile(made_log(tmp_path / "same.jsonl", seed, model, sorted_keys=False), tokenizer=bytes_json)
    assert same.findings == []
    other = kvtool.profile(made_log(tmp_path / "other.jsonl", seed, model, sorted_keys=True), tokenizer=bytes_json)
    (finding,) = other.findings
    assert (finding.code, finding.tier) == ("KV112", "P1")
    assert RESEND_CALLS in finding.fix
    if model == "qwen3-14b":  # a server of one's own keeps answers
        assert finding.rerun is not None
        assert finding.rerun.total_after == pytest.approx(same.totals.hit_rate)
        assert finding.rerun.total_after > other.totals.hit_rate + 0.05


def test_a_call_that_says_something_else_stays() -> None:
    """Only the very call of an earlier answer is put back: by its id, its name and its arguments."""

    def turn(call: dict[str, Any], answer: dict[str, Any] | None = None) -> Turn:
        messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]
        return Turn("g", messages, output_text=None if answer is None else json.dumps([answer]))

    def call(identity: str, name: str, arguments: object) -> dict[str, Any]:
        return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}

    wrote = call("c1", "edit", '{"b": 1, "a": [1, 2]}')
    for other in (
        call("c2", "edit", '{"a": [1, 2], "b": 1}'),
        call("c1", "read", '{"a": [1, 2], "b": 1}'),
        call("c1", "edit", '{"a": [2, 1], "b": 1}'),
        call("c1", "edit", "{broken"),
        call("c1", "edit", None),
        {"id": "c1"},
    ):
        as_written = ResentCalls()
        as_written(turn(call("c0", "look", "{}"), wrote))
        later = turn(other)
        assert as_written(later) is later
    again = as_written(turn(call("c1", "edit", '{"a": [1, 2], "b": 1}')))
    assert again.messages is not None
    assert again.messages[0]["tool_calls"] == [wrote]
