"""Spans of Google's ADK and of LiveKit, whose prompts have names of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.workload.logs.reading_made import Read, lines, refusal


def spans(path: Path, *listed: dict[str, Any]) -> Path:
    made = [
        {
            "traceId": "t",
            "spanId": str(at),
            "startTimeUnixNano": f"177000000{at}000000000",
            "attributes": [
                {"key": name, "value": {"intValue" if isinstance(value, int) else "stringValue": str(value)}}
                for name, value in each.items()
            ],
        }
        for at, each in enumerate(listed)
    ]
    return lines(path, {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]})


def test_a_request_of_adk_has_its_system_prompt_its_tools_and_what_the_cache_gave(tmp_path: Path) -> None:
    contents = [
        {"role": "user", "parts": [{"text": "Is it open?"}]},
        {"role": "model", "parts": [{"function_call": {"id": "c", "name": "hours", "args": {"day": 1}}}]},
        {"role": "user", "parts": [{"function_response": {"id": "c", "name": "hours", "response": {"open": True}}}]},
    ]
    declared = [{"function_declarations": [{"name": "hours"}]}]
    config = {"system_instruction": "You are Mina.", "tools": declared}
    asked = {"model": "gemini-2.5-flash", "config": config, "contents": contents}
    usage = {"prompt_token_count": 24, "cached_content_token_count": 16}
    answer = {"content": {"parts": [{"text": "Yes."}], "role": "model"}, "usage_metadata": usage}
    path = spans(
        tmp_path / "a.json",
        {
            "gen_ai.operation.name": "call_llm",
            "gcp.vertex.agent.llm_request": json.dumps(asked),
            "gcp.vertex.agent.llm_response": json.dumps(answer),
            "gen_ai.usage.output_tokens": 2,
        },
        {"gen_ai.operation.name": "execute_tool", "gcp.vertex.agent.llm_request": "{}"},
    )
    read = Read(path)
    [row] = read.rows
    assert [role for role, _ in row["messages"]] == ["system", "user", "assistant", "tool"]
    assert [row["messages"][at][1] for at in (0, 1, 3)] == ["You are Mina.", "Is it open?", '{"open": true}']
    assert (row["tools"], row["said"], row["model"]) == (["hours"], "Yes.", "gemini-2.5-flash")
    assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) == (24, 16, 2)
    assert read.left_out == {"tool span": 1}


def test_a_request_of_livekit_has_its_conversation(tmp_path: Path) -> None:
    items = [
        {"type": "message", "role": "system", "content": ["You are Mina."]},
        {"type": "message", "role": "user", "content": ["Is it open?"]},
        {"type": "function_call", "call_id": "c", "name": "hours", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "name": "hours", "output": "till six"},
        {"type": "agent_handoff", "new_agent_id": "a"},
    ]
    asked = {"gen_ai.operation.name": "chat", "lk.chat_ctx": json.dumps({"items": items})}
    read = Read(spans(tmp_path / "a.json", {**asked, "lk.response.text": "Yes.", "gen_ai.usage.input_tokens": 24}))
    [row] = read.rows
    assert [role for role, _ in row["messages"]] == ["system", "user", "assistant", "tool"]
    assert [row["messages"][at][1] for at in (0, 1, 3)] == ["You are Mina.", "Is it open?", "till six"]
    assert (row["said"], row["prompt_tokens"]) == ("Yes.", 24)


def test_such_a_span_without_a_prompt_is_left_out(tmp_path: Path) -> None:
    for broken in ("{}", "[1]", "no JSON", '{"contents": "x", "items": 3}', '{"contents": [1], "items": [1]}'):
        path = spans(tmp_path / "a.json", {"lk.chat_ctx": broken}, {"gcp.vertex.agent.llm_request": broken})
        assert "no model request" in refusal(path).message
