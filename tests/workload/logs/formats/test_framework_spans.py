"""Spans of frameworks: prompts under names of their own, and one call that several of them write."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

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
    usage |= {"candidates_token_count": 2, "thoughts_token_count": 5}
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
    assert (row["prompt_tokens"], row["cached_tokens"]) == (24, 16)
    assert (row["output_tokens"], row["reasoning_tokens"]) == (7, 5), "the span's own count is without thoughts"
    assert read.left_out == {"tool span": 1}


def test_a_failed_span_is_a_call_where_it_has_an_answer_or_tokens(tmp_path: Path) -> None:
    for parts, prompt in [([], 0), ([], 9), ([{"type": "text", "content": "No"}], 0)]:
        told = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(
                [{"role": "user", "parts": [{"type": "text", "content": "Is it open?"}]}]
            ),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        }
        attributes = [{"key": name, "value": {"stringValue": value}} for name, value in told.items()]
        attributes += [
            {"key": f"gen_ai.usage.{name}_tokens", "value": {"intValue": prompt}} for name in ("input", "output")
        ]
        span = {
            "traceId": "1" * 32,
            "spanId": "2" * 16,
            "name": "chat",
            "attributes": attributes,
            "status": {"code": 2},
        }
        path = lines(tmp_path / "t.jsonl", {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
        if parts or prompt:
            assert len(Read(path).rows) == 1
        else:
            assert "1 failed" in refusal(path).message


def test_a_request_of_livekit_has_its_conversation(tmp_path: Path) -> None:
    items = [
        {"type": "message", "role": "system", "content": ["You are Mina."]},
        {"type": "message", "role": "user", "content": ["Is it open?"]},
        {"type": "function_call", "call_id": "c", "name": "hours", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "name": "hours", "output": "till six"},
        {"type": "agent_handoff", "new_agent_id": "a"},
    ]
    for prompt, answer in (("lk.chat_ctx", "lk.response.text"), ("lk.pii.chat_ctx", "lk.pii.response.text")):
        asked = {"gen_ai.operation.name": "chat", prompt: json.dumps({"items": items})}
        [row] = Read(spans(tmp_path / "a.json", {**asked, answer: "Yes.", "gen_ai.usage.input_tokens": 24})).rows
        assert [role for role, _ in row["messages"]] == ["system", "user", "assistant", "tool"]
        assert [row["messages"][at][1] for at in (0, 1, 3)] == ["You are Mina.", "Is it open?", "till six"]
        assert (row["said"], row["prompt_tokens"]) == ("Yes.", 24)


def test_a_span_of_livekit_that_records_a_change_has_its_whole_prompt(tmp_path: Path) -> None:
    source = random.Random(7)
    told = [{"role": "user", "parts": [{"type": "text", "content": "0"}]}]
    given, expected = (
        [{"gen_ai.input.messages": json.dumps(told), "gen_ai.system_instructions": "You are Mina."}],
        [["0"]],
    )
    for at in range(1, 9):
        base = source.randrange(at)
        dropped = source.randint(0, len(expected[base]))
        own = [str(10 * at + number) for number in range(source.randint(1, 3))]
        expected.append([*expected[base][: len(expected[base]) - dropped], *own])
        messages = [{"role": "user", "parts": [{"type": "text", "content": text}]} for text in own]
        change = {"lk.input.base_span_id": str(base), "lk.input.dropped_from_base": dropped}
        given.append({"gen_ai.input.messages": json.dumps(messages), **change})
    path = spans(tmp_path / "a.json", *({"gen_ai.operation.name": "chat", **each} for each in given))
    rows = Read(path).rows
    assert [[text for _, text in row["messages"]] for row in rows] == [["You are Mina.", *each] for each in expected]
    lost = spans(tmp_path / "b.json", *({"gen_ai.operation.name": "chat", **each} for each in given[8:]))
    assert [row["incomplete"] for row in Read(lost).rows] == ["earlier messages are not in the file"]


def test_such_a_span_without_a_prompt_is_left_out(tmp_path: Path) -> None:
    for broken in ("{}", "[1]", "no JSON", '{"contents": "x", "items": 3}', '{"contents": [1], "items": [1]}'):
        path = spans(tmp_path / "a.json", {"lk.chat_ctx": broken}, {"gcp.vertex.agent.llm_request": broken})
        assert "no model request" in refusal(path).message


MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Is it open?"}]}])


def span(name: str, attributes: dict[str, Any], *, parent: str = "", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "start_time": "2026-02-02T09:00:00Z",
        "end_time": "2026-02-02T09:00:01Z",
        "parent_id": parent,
        "context": {"trace_id": "t", "span_id": name},
        "attributes": attributes,
        **more,
    }


def test_spans_as_the_sdk_of_javascript_writes_them(tmp_path: Path) -> None:
    """Ids in `spanContext`, times as seconds and nanoseconds; the call is inside a span that repeats its tokens."""
    outer = {"ai.operationId": "ai.generateText", "ai.prompt": "{}", "ai.usage.inputTokens": 24}
    inner = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": MESSAGES, "ai.usage.inputTokens": 24}
    times = {"startTime": [1_770_022_800, 500_000_000], "endTime": [1_770_022_801, 0]}
    listed = [
        {
            "name": "b",
            "spanContext": {"traceId": "t", "spanId": "b"},
            "attributes": inner,
            **times,
            "parentSpanId": "a",
        },
        {"name": "c", "spanContext": {"traceId": "t", "spanId": "c"}, "attributes": inner, "status": {"code": 2}},
        {"name": "a", "spanContext": {"traceId": "t", "spanId": "a"}, "attributes": outer, **times},
    ]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(listed))
    read = Read(path)
    assert (read.of("prompt_tokens"), read.of("time")[0], read.of("session")[0]) == ([24, 24], 1_770_022_800.5, "t")
    assert read.left_out == {"workflow span": 1}


@pytest.mark.parametrize("lacks", ["", "gen_ai.request.model", "gen_ai.input.messages", "gen_ai.usage.input_tokens"])
def test_a_call_may_have_an_operation_of_its_own_name(tmp_path: Path, lacks: str) -> None:
    told = {"gen_ai.request.model": "gemini-3", "gen_ai.input.messages": MESSAGES, "gen_ai.usage.input_tokens": 24}
    own = {"gen_ai.operation.name": "llm_call", **{name: value for name, value in told.items() if name != lacks}}
    known = {**told, "gen_ai.operation.name": "invoke_agent"}
    call = {**told, "gen_ai.operation.name": "chat"}
    read = Read(lines(tmp_path / "a.jsonl", span("a", own), span("b", known), span("c", call)))
    assert (len(read.rows), read.left_out.get("other span")) == ((2, None) if not lacks else (1, 1))


def test_what_the_sdk_of_langfuse_writes_into_a_span(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 24, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 16}}
    counted = {"input": 8, "output": 2, "total": 29, "input_cache_read": 16, "output_reasoning": 3}
    asked = {"messages": [{"role": "user", "content": "Is it open?"}], "tools": [{"function": {"name": "hours"}}]}
    told = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps(asked),
        "langfuse.observation.model.name": "gpt-5",
        "session.id": "s1",
        "user.id": "u1",
        "langfuse.observation.cost_details": '{"total": 0.25}',
    }
    given = [
        span(str(at), {**told, "langfuse.observation.usage_details": json.dumps(each)})
        for at, each in enumerate((usage, counted))
    ]
    read = Read(lines(tmp_path / "a.jsonl", *given, span("r", {"langfuse.observation.type": "span"})))
    for row in read.rows:
        assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) == (24, 16, 5)
        assert (row["tools"], row["session"], row["tenant"], row["cost"]) == (["hours"], "s1", "u1", 0.25)
    assert [row.get("reasoning_tokens") for row in read.rows] == [None, 3]
    assert read.left_out == {"other span": 1}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_a_library_and_the_framework_around_it_write_one_call(tmp_path: Path, inside: bool, turned: bool) -> None:
    named = {"gen_ai.operation.name": "chat", "gen_ai.response.id": "msg_1", "gen_ai.usage.input_tokens": 24}
    around = span("a", {**named, "gen_ai.input.messages": MESSAGES})
    kept = {"gen_ai.usage.cache_write.input_tokens": 16, "x.ephemeral_1h_input_tokens": 12}
    inner = span("b", {**named, **kept}, parent="a" if inside else "")
    both = [inner, around] if turned else [around, inner]
    read = Read(lines(tmp_path / "a.jsonl", *both))
    [row] = read.rows
    assert (row["prompt_tokens"], row["cache_write_tokens"], row["cache_write_1h_tokens"]) == (24, 16, 12)
    assert read.left_out == {"second record of the same call": 1}


def test_what_versions_of_the_ai_sdk_count(tmp_path: Path) -> None:
    for counts, expected in [
        (
            {"ai.usage.promptTokens": 24, "m": {"openai": {"cachedPromptTokens": 16, "reasoningTokens": 1}}},
            (24, 16, None),
        ),
        (
            {
                "ai.usage.promptTokens": 4,
                "m": {"anthropic": {"cacheReadInputTokens": 16, "cacheCreationInputTokens": 4}},
            },
            (24, 16, 4),
        ),
        ({"ai.usage.promptTokens": 4, "m": {"bedrock": {"usage": {"cacheReadInputTokens": 20}}}}, (24, 20, None)),
        (
            {
                "ai.usage.inputTokens": 24,
                "ai.usage.inputTokenDetails.noCacheTokens": 8,
                "ai.usage.cachedInputTokens": 12,
                "ai.usage.inputTokenDetails.cacheWriteTokens": 4,
                "m": {"bedrock": {"usage": {"cacheReadInputTokens": 12}}},
            },
            (24, 12, 4),
        ),
    ]:
        metadata = json.dumps(counts.pop("m"))
        prompt = {"ai.prompt.messages": '[{"role": "user", "content": "Is it open?"}]'}
        told = {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.response.providerMetadata": metadata,
            **prompt,
            **counts,
        }
        [row] = Read(lines(tmp_path / "a.jsonl", span("a", told))).rows
        assert tuple(row.get(name) for name in ("prompt_tokens", "cached_tokens", "cache_write_tokens")) == expected


def test_details_in_several_events_of_a_span_are_one_call(tmp_path: Path) -> None:
    event = "gen_ai.client.inference.operation.details"
    system = json.dumps([{"type": "text", "content": "You are Mina."}])
    given = (
        {"gen_ai.system_instructions": system},
        {"gen_ai.input.messages": MESSAGES},
        {"gen_ai.output.messages": "[]"},
    )
    events = [{"name": event, "attributes": each} for each in given]
    [row] = Read(lines(tmp_path / "a.jsonl", span("a", {"gen_ai.operation.name": "chat"}, events=events))).rows
    assert [text for _, text in row["messages"]] == ["You are Mina.", "Is it open?"]


def test_a_logged_event_has_the_model_and_the_time_of_its_span(tmp_path: Path) -> None:
    ids = {"traceId": "t", "spanId": "a"}

    def attributes(**given: str) -> list[dict[str, Any]]:
        return [{"key": name.replace("__", "."), "value": {"stringValue": each}} for name, each in given.items()]

    told = attributes(gen_ai__operation__name="chat", gen_ai__request__model="gemini-2.5-flash")
    named = {**ids, "name": "chat", "startTimeUnixNano": "1770000000000000000", "attributes": told}
    event = {
        **ids,
        "eventName": "gen_ai.client.inference.operation.details",
        "timeUnixNano": "1770000009000000000",
        "attributes": attributes(gen_ai__input__messages=MESSAGES),
    }
    logged = {"resourceLogs": [{"scopeLogs": [{"logRecords": [event]}]}]}
    for order in (0, 1):
        both = [{"resourceSpans": [{"scopeSpans": [{"spans": [named]}]}]}, logged]
        read = Read(lines(tmp_path / "a.jsonl", *(reversed(both) if order else both)))
        [row] = read.rows
        assert (row["model"], row["time"]) == ("gemini-2.5-flash", 1_770_000_000.0)
        assert read.left_out == {"second record of the same call": 1}


def test_a_streamed_answer_of_logfire_is_one_call_with_its_request(tmp_path: Path) -> None:
    asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5", "gen_ai.input.messages": MESSAGES}
    log = {**asked, "logfire.span_type": "log", "gen_ai.usage.input_tokens": 24, "operation.cost": 0.5}
    stopped = {**asked, "gen_ai.request.model": "gpt-6"}
    given = [span(name, {"logfire.span_type": "span", **each}) for name, each in (("a", asked), ("b", stopped))]
    read = Read(
        lines(tmp_path / "a.jsonl", *given, span("c", log), span("d", {**asked, "logfire.span_type": "pending_span"}))
    )
    assert [(row["model"], row.get("cost")) for row in read.rows] == [("gpt-6", None), ("gpt-5", 0.5)]
    assert read.left_out == {"second record of the same call": 1, "pending span": 1}
