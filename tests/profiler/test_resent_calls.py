"""Tool calls that an application sends back: as the model wrote them they are read from the cache, re-serialised they are named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.text.message import answer_message
from kvtool.workload.logs.records.record import text_of


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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["gpt-4o", "qwen3-14b"])
def test_only_re_serialised_calls_are_a_difference(seed: int, model: str, tmp_path: Path, bytes_json: str) -> None:
    same = kvtool.profile(made_log(tmp_path / "same.jsonl", seed, model, sorted_keys=False), tokenizer=bytes_json)
    assert same.findings == []
    other = kvtool.profile(made_log(tmp_path / "other.jsonl", seed, model, sorted_keys=True), tokenizer=bytes_json)
    assert [finding.code for finding in other.findings] == ["KV112"]
    (finding,) = other.findings
    assert finding.fix is not None
    assert "send tool calls back as the model wrote them" in finding.fix
