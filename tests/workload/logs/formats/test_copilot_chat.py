"""Debug logs of Copilot Chat, with words or numbers for roles and parts."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kvtool.workload.logs.logs import LogSource
from tests.conftest import some
from tests.workload.logs.reading_made import Read

ROLES, KINDS = ("system", "user", "assistant", "tool"), ("image", "text", "opaque", "cache_breakpoint")


def entry(source: Random, texts: list[tuple[str, str]], usage: dict[str, Any]) -> dict[str, Any]:
    """A request whose roles and parts are numbers or words by chance; a mark follows the first message."""

    def named(names: tuple[str, ...], name: str) -> str | int:
        return source.choice([name, names.index(name)])

    messages = []
    for number, (role, text) in enumerate(texts):
        content: list[dict[str, Any]] = [{"type": named(KINDS, "text"), "text": text}]
        if not number:
            content.append({"type": named(KINDS, "cache_breakpoint"), "cacheType": "ephemeral"})
        messages.append({"role": named(ROLES, role), "content": content})
    metadata = {"model": "claude-opus-4.6", "startTime": "2026-02-02T09:00:00Z", "usage": usage}
    metadata["tools"] = [{"type": "function", "function": {"name": "read_file"}}]
    response = {"type": "success", "message": ["ok"]}
    request = {"id": str(source.random()), "kind": "request", "name": "panel/editAgent", "metadata": metadata}
    return {**request, "requestMessages": {"messages": messages}, "response": response}


@pytest.mark.parametrize("seed", some(range(5), 2))
def test_requests_are_read_as_they_were_sent(tmp_path: Path, seed: int) -> None:
    source = Random(seed)
    texts = [("system", "You are Mina."), ("user", f"q{seed}"), ("assistant", "a"), ("user", "more")]
    usage = {"prompt_tokens": 30 + seed, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": seed}}
    failed = {**entry(source, texts, {}), "response": {"type": "failure", "reason": "x"}}
    tool = {"id": "t", "kind": "toolCall", "tool": "read_file", "args": "{}", "response": ["x"]}
    logs = [entry(source, texts[:2], usage), tool, failed, entry(source, texts, usage)]
    path = tmp_path / "all.chatreplay.json"
    whole = {"exportedAt": "2026-02-02T09:01:00Z", "totalPrompts": 1, "totalLogEntries": len(logs)}
    path.write_text(json.dumps({**whole, "prompts": [{"promptId": "p", "prompt": "q", "logs": logs}]}))
    read = Read(path)
    assert [[tuple(each) for each in row["messages"]] for row in read.rows] == [texts[:2], texts]
    assert {(row["prompt_tokens"], row["cached_tokens"]) for row in read.rows} == {(30 + seed, seed)}
    assert all(row["tools"] == ["read_file"] for row in read.rows)
    turn = next(iter(LogSource([str(path)]).conversations())).next_turn(None)
    assert turn is not None
    assert turn.messages is not None
    assert turn.messages[0]["content"][0]["cache_control"] == {"type": "ephemeral"}
