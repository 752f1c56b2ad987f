"""Exports of tracing tools: which spans are calls, what they say, and what of each tool is written otherwise than in its sample."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.workload.logs.records.record import Where
from kvtool.workload.logs.records.records import read_record
from tests.workload.logs.log_lines import START, SYSTEM, document, read, write

QUESTION = "Is the atlas on loan?"
WANTED = [["system", SYSTEM], ["user", QUESTION]]
MESSAGES = [{"role": role, "content": text} for role, text in WANTED]


def any_value(value: Any) -> dict[str, Any]:
    """As OTLP writes it."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": any_value(each)} for key, each in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def span(own: str, attributes: dict[str, Any], *, parent: str = "", at: int = 0, **other: Any) -> dict[str, Any]:
    start = int((START + at) * 1e9)
    return {
        "traceId": "t1",
        "spanId": own,
        "parentSpanId": parent,
        "name": "chat",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**9),
        "attributes": [{"key": key, "value": any_value(value)} for key, value in attributes.items()],
        **other,
    }


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": list(spans)}]}]}


def parts(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-5.5",
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.cache_read.input_tokens": 64,
    "gen_ai.usage.output_tokens": 9,
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": SYSTEM}]),
    "gen_ai.input.messages": json.dumps([parts("user", QUESTION)]),
    "gen_ai.output.messages": json.dumps([parts("assistant", "Yes.")]),
}
INDEXED = {
    "llm.request.type": "chat",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": SYSTEM,
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": QUESTION,
    "gen_ai.usage.prompt_tokens": 120,
}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-5.5",
    "input.value": "the same again, as one text",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.contents.0.message_content.type": "text",
    "llm.input_messages.0.message.contents.0.message_content.text": SYSTEM,
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.content": QUESTION,
    "llm.token_count.prompt": 120,
}
VENDOR = {
    "anthropic": {"usage": {"input_tokens": 20, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 36}}
}
VERCEL_4 = {
    "ai.operationId": "ai.streamText.doStream",
    "ai.model.id": "claude-sonnet-4-5",
    "ai.prompt.messages": json.dumps(MESSAGES),
    "ai.usage.promptTokens": 20,
    "ai.response.providerMetadata": json.dumps(VENDOR),
}
VERCEL = {
    "ai.operationId": "ai.streamText.doStream",
    "ai.model.id": "gpt-5.5",
    "ai.prompt.messages": json.dumps([MESSAGES[0], {"role": "user", "content": [{"type": "text", "text": QUESTION}]}]),
    "ai.usage.inputTokens": 120,
}


@pytest.mark.parametrize("attributes", [GENAI, INDEXED, OPENINFERENCE, VERCEL, VERCEL_4])
def test_each_convention_of_spans_is_read(tmp_path: Path, attributes: dict[str, Any]) -> None:
    others = [
        span("r", {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION}),
        span("h", {"http.request.method": "GET"}),
        span("e", {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"}),
        span("a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": json.dumps(MESSAGES)}),
    ]
    calls = [span(f"c{at}", attributes, at=at) for at in range(3)]
    rows, source = read(document(tmp_path / "a.json", otlp(*calls[::-1], *others)))
    assert [row["messages"] for row in rows] == [WANTED] * 3
    assert [row["time"] - START for row in rows] == pytest.approx([0, 1, 2], abs=0.01)
    assert rows[0]["prompt_tokens"] == 120
    assert rows[0].get("cached_tokens") == (64 if attributes in (GENAI, VERCEL_4) else None)
    assert source.left_out.counts == {"retriever span": 1, "other span": 1, "embedding": 1, "agent span": 1}
    lines = write(tmp_path / "b.jsonl", [otlp(each) for each in (*others, *calls)])
    assert read(lines)[0] == rows
    assert read(str(tmp_path / "a.json"), lines)[0] == rows


@pytest.mark.parametrize("dumped", [json.dumps, lambda content: content[0]["text"]])
def test_events_may_have_their_content_as_a_serialized_text(
    tmp_path: Path, dumped: Callable[[list[dict[str, str]]], str]
) -> None:
    told = {"content": dumped([{"text": QUESTION}])}, {"message": dumped([{"text": "Yes."}]), "finish_reason": "x"}
    events = [
        {"name": name, "attributes": [{"key": key, "value": any_value(value)} for key, value in each.items()]}
        for name, each in zip(("gen_ai.user.message", "gen_ai.choice"), told, strict=True)
    ]
    counts = {"gen_ai.usage.cache_read_input_tokens": 4000, "gen_ai.usage.cache_write_input_tokens": 1000}
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 24, **counts}
    rows, _ = read(write(tmp_path / "log.jsonl", [otlp(span("c", attributes, events=events))]))
    assert rows[0]["messages"] == [["user", QUESTION]]
    assert (rows[0]["prompt_tokens"], rows[0]["cached_tokens"], rows[0]["cache_write_tokens"]) == (5024, 4000, 1000)


def test_a_list_whose_positions_are_absurd_is_left_as_it_is(tmp_path: Path) -> None:
    odd = {**OPENINFERENCE, f"llm.input_messages.1.message.contents.{'9' * 5000}.x": "y"}
    rows, _ = read(write(tmp_path / "log.jsonl", [otlp(span("c", odd))]))
    assert rows[0]["messages"][0] == WANTED[0]


def test_a_model_span_around_another_is_not_the_call(tmp_path: Path) -> None:
    outer, inner = span("o", INDEXED), span("i", GENAI, parent="o")
    for records in ([otlp(outer, inner)], [otlp(inner), otlp(outer)]):
        rows, source = read(write(tmp_path / "log.jsonl", records))
        assert len(rows) == 1
        assert rows[0]["cached_tokens"] == 64
        assert source.left_out.counts == {"second record of the same call": 1}


def test_what_remains_beside_the_cache_is_not_the_prompt(tmp_path: Path) -> None:
    attributes = {**GENAI, "gen_ai.usage.input_tokens": 20, "gen_ai.usage.cache_creation.input_tokens": 36}
    rows, _ = read(write(tmp_path / "log.jsonl", [otlp(span("c", attributes))]))
    assert (rows[0]["prompt_tokens"], rows[0]["cached_tokens"], rows[0]["cache_write_tokens"]) == (120, 64, 36)


def test_tool_calls_and_their_results_are_messages(tmp_path: Path) -> None:
    said = [
        parts("user", QUESTION),
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "1", "name": "find", "arguments": {"title": "atlas"}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "shelf 4"}]},
    ]
    tools = [{"type": "function", "name": "find", "parameters": {}}]
    attributes = {**GENAI, "gen_ai.input.messages": said, "gen_ai.tool.definitions": tools}
    rows, _ = read(write(tmp_path / "log.jsonl", [otlp(span("c", attributes))]))
    assert [role for role, _ in rows[0]["messages"]] == ["system", "user", "assistant", "tool"]
    assert "atlas" in rows[0]["messages"][2][1]
    assert rows[0]["messages"][3] == ["tool", "shelf 4"]
    assert rows[0]["tools"] == ["find"]


def test_events_of_messages_are_joined_with_their_span_wherever_they_stand(tmp_path: Path) -> None:
    plain = {key: value for key, value in GENAI.items() if "messages" not in key and "instructions" not in key}
    events = [
        {
            "traceId": "t1",
            "spanId": "c",
            "eventName": name,
            "timeUnixNano": str(int(START * 1e9)),
            "body": any_value(body),
        }
        for name, body in (
            ("gen_ai.system.message", {"content": SYSTEM}),
            ("gen_ai.user.message", {"content": QUESTION}),
            ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "Yes."}}),
        )
    ]
    logged = [{"resourceLogs": [{"scopeLogs": [{"logRecords": [event]}]}]} for event in events]
    for records in ([*logged, otlp(span("c", plain))], [otlp(span("c", plain)), *logged]):
        rows, source = read(write(tmp_path / "log.jsonl", records))
        assert [row["messages"] for row in rows] == [WANTED]
        assert source.left_out.counts == {}
    with pytest.raises(KvtoolError, match="3 events without a span") as raised:
        read(write(tmp_path / "log.jsonl", logged))
    assert raised.value.hint == "pass the traces too: kvtool joins events with their spans"


def test_spans_without_content_are_refused_with_the_way_out(tmp_path: Path) -> None:
    plain = {key: value for key, value in GENAI.items() if "messages" not in key and "instructions" not in key}
    with pytest.raises(KvtoolError, match="no model request") as raised:
        read(write(tmp_path / "log.jsonl", [otlp(span("c", plain))]))
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in str(raised.value.hint)


def test_a_printed_span_and_a_row_of_phoenix_are_read(tmp_path: Path) -> None:
    printed = {
        "name": "chat",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "parent_id": None,
        "start_time": "2026-02-02T02:40:00.5Z",
        "attributes": GENAI,
    }
    row = {
        "context.trace_id": "1",
        "context.span_id": "3",
        "span_kind": "LLM",
        "start_time": "2026-02-02T02:41:00Z",
        "attributes.llm.input_messages": [{"message": each} for each in MESSAGES],
        "attributes.llm.token_count.prompt": 120,
    }
    arize = {
        **{name: value for name, value in row.items() if name != "span_kind"},
        "context.span_id": "4",
        "attributes.openinference.span.kind": "LLM",
        "attributes.llm.input_messages": [
            {f"message.{name}": value for name, value in each.items()} for each in MESSAGES
        ],
    }
    rows, _ = read(write(tmp_path / "log.jsonl", [printed, row, arize]))
    assert [each["messages"] for each in rows] == [WANTED] * 3
    assert [each["prompt_tokens"] for each in rows] == [120] * 3
    table = ",".join(arize) + "\n" + ",".join(_cell(value) for value in arize.values())
    (tmp_path / "log.csv").write_text(table)
    rows, _ = read(str(tmp_path / "log.csv"))
    assert [(each["messages"], each["prompt_tokens"]) for each in rows] == [(WANTED, 120)]


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace('"', '""') + '"'


def langfuse(**fields: Any) -> dict[str, Any]:
    return {
        "id": "g1",
        "traceId": "t1",
        "type": "GENERATION",
        "startTime": "2026-02-02T02:40:00Z",
        "model": "m",
        **fields,
    }


def test_langfuse_counts_the_cache_beside_the_input_or_in_it(tmp_path: Path) -> None:
    for usage, wanted in [
        ({"input": 56, "input_cached_tokens": 64, "output": 9, "total": 129}, (120, 64)),
        ({"input": 120, "input_cached_tokens": 64, "output": 9, "total": 129}, (120, 64)),
        ({"input": 20, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 36, "output": 9}, (120, 64)),
        ({"promptTokens": 120, "completionTokens": 9}, (120, None)),
        ({"input": 120, "prompt_details.cache_read": 64, "output": 9, "total": 129}, (120, 64)),
    ]:
        rows, _ = read(write(tmp_path / "log.jsonl", [langfuse(input=MESSAGES, usageDetails=usage)]))
        assert (rows[0]["prompt_tokens"], rows[0].get("cached_tokens")) == wanted


@given(
    *[st.integers(0, 9) | st.integers(1_000, 9_000)] * 6,
    st.sampled_from(["apart", "in all", "only parts"]),
    st.booleans(),
)
def test_langfuse_counts_are_those_of_its_total(
    plain: int, read_: int, short: int, long: int, output: int, reasoning: int, written: str, thought: bool
) -> None:
    """Its integration writes every kind of tokens beside the others, and the sum of all; `input_cache_creation` may be all that is
    written, or what has no time of its own."""
    of_all = {"apart": 0, "in all": short + long, "only parts": None}[written]
    usage = {
        "input": plain,
        "input_cached_tokens": read_,
        "input_cache_creation": of_all,
        "input_cache_creation_5m": short,
        "input_cache_creation_1h": long,
        "output": output,
        "output_reasoning": reasoning if thought else None,
    }
    total = plain + read_ + short + long + output + (reasoning if thought else 0)
    record = langfuse(input=MESSAGES, usageDetails={k: v for k, v in usage.items() if v is not None} | {"total": total})
    found = read_record(record, Where("log.jsonl"))[1][0].turns[0].call.usage
    assert (found.prompt, found.cached, found.all_written) == (plain + read_ + short + long, read_, short + long)
    assert found.output == output + (reasoning if thought else 0)


GEMINI = {
    "config": {"system_instruction": SYSTEM},
    "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
}
CALLED = [
    *MESSAGES,
    {"type": "function_call", "call_id": "c", "name": "hours", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "10-18"},
]


@pytest.mark.parametrize("dumped", [False, True], ids=["object", "text"])
@pytest.mark.parametrize(
    "value",
    [
        MESSAGES,
        {"messages": MESSAGES},
        {"args": [MESSAGES]},
        {"args": [], "kwargs": {"messages": MESSAGES}},
        GEMINI,
        CALLED,
    ],
)
def test_langfuse_inputs_have_many_forms(tmp_path: Path, value: Any, dumped: bool) -> None:
    """Alone, in a trace of the API and in one that its web page downloaded, whatever framework called the model."""
    around = {"id": "t1", "sessionId": "s", "timestamp": "2026-02-02T02:40:00Z"}
    span = {"id": "s1", "traceId": "t1", "type": "SPAN", "input": "the same again"}
    call = langfuse(input=json.dumps(value) if dumped else value)
    trace, downloaded = {**around, "observations": [span, call]}, {"trace": around, "observations": [span, call]}
    for records in ([trace], [downloaded], [span, call]):
        rows, source = read(write(tmp_path / "log.jsonl", records))
        assert [row["messages"][:2] for row in rows] == [WANTED]
        assert len(rows[0]["messages"]) == len(WANTED) + 2 * (value is CALLED)
        assert source.left_out.counts == {"other span": 1}


def test_tools_that_langfuse_has_as_messages_are_tools(tmp_path: Path) -> None:
    behind = [
        {"role": "tool", "content": {"type": "function", "function": {"name": name}}} for name in ("hours", "loans")
    ]
    log = write(tmp_path / "log.jsonl", [langfuse(input=[*MESSAGES, *behind])])
    turn = read_record(json.loads(Path(log).read_text()), Where(log))[1][0].turns[0]
    assert [each["function"]["name"] for each in turn.tools or ()] == ["hours", "loans"]
    assert [each["role"] for each in turn.messages or ()] == ["system", "user"]


def test_a_generation_around_another_is_the_same_request(tmp_path: Path) -> None:
    outer = langfuse(id="o", input={"prompt": QUESTION}, usageDetails={"input": 120})
    inner = langfuse(id="i", parentObservationId="o", input=MESSAGES, usageDetails={"input": 120})
    other = langfuse(id="x", parentObservationId="elsewhere", input=MESSAGES)
    for records in ([outer, inner, other], [{"trace": {"id": "t1"}, "observations": [inner, outer, other]}]):
        rows, source = read(write(tmp_path / "log.jsonl", records))
        assert [row["messages"] for row in rows] == [WANTED, WANTED]
        assert source.left_out.counts == {"second record of the same call": 1}


def test_a_system_text_beside_a_prompt_is_before_it(tmp_path: Path) -> None:
    rows, _ = read(write(tmp_path / "log.jsonl", [{"model": "llama3", "prompt": QUESTION, "system": SYSTEM}]))
    assert [row["messages"] for row in rows] == [WANTED]


def test_langsmith_reads_openais_form_and_child_runs(tmp_path: Path) -> None:
    call = {
        "id": "c",
        "run_type": "llm",
        "start_time": "2026-02-02T02:40:00",
        "inputs": {"messages": MESSAGES, "model": "gpt-5.5"},
        "outputs": {
            "choices": [{"message": {"role": "assistant", "content": "Yes."}}],
            "usage": {"prompt_tokens": 120},
        },
    }
    failed = {"id": "f", "run_type": "llm", "inputs": {"messages": MESSAGES}, "error": "429", "outputs": None}
    root = {"id": "r", "run_type": "chain", "inputs": {"messages": MESSAGES}, "child_runs": [call, failed]}
    rows, source = read(write(tmp_path / "log.jsonl", [root, call]))
    assert [row["messages"] for row in rows] == [WANTED]
    assert rows[0]["prompt_tokens"] == 120
    assert source.left_out.counts == {"chain span": 1, "failed": 1}
    assert source.repeated == 1


def test_litellm_leaves_out_its_own_cache_and_tells_of_missing_prompts(tmp_path: Path) -> None:
    def row(**fields: Any) -> dict[str, Any]:
        return {
            "request_id": "r",
            "call_type": "acompletion",
            "spend": 0.1,
            "startTime": "2026-02-02T02:40:00Z",
            **fields,
        }

    rows, source = read(
        write(
            tmp_path / "log.jsonl",
            [
                row(messages=MESSAGES, model="m", prompt_tokens=120),
                row(messages=MESSAGES, cache_hit="True", request_id="s"),
                row(messages={}, proxy_server_request="{}", request_id="t"),
                row(call_type="aembedding", messages={}, request_id="u"),
            ],
        )
    )
    assert [each["messages"] for each in rows] == [WANTED]
    assert source.left_out.counts == {
        "answer from the cache of the proxy": 1,
        "call without a prompt": 1,
        "embedding": 1,
    }


def test_a_weave_call_of_an_own_operation_is_not_the_one_in_it(tmp_path: Path) -> None:
    def call(own: str, parent: str | None, name: str) -> dict[str, Any]:
        inputs = {"model": "m", "messages": MESSAGES}
        return {
            "id": own,
            "parent_id": parent,
            "op_name": f"weave:///a/b/op/{name}:1",
            "started_at": "2026-02-02",
            "inputs": inputs,
        }

    rows, source = read(
        write(tmp_path / "log.jsonl", [call("o", None, "ask"), call("i", "o", "openai.chat.completions.create")])
    )
    assert [row["messages"] for row in rows] == [WANTED]
    assert sum(source.left_out.counts.values()) == 1


def test_a_batch_of_langfuse_s_sdk_is_a_call_with_its_update_and_its_trace(tmp_path: Path) -> None:
    events = [
        {"type": "trace-create", "body": {"id": "t1", "sessionId": "s1", "userId": "u1"}},
        {"type": "generation-create", "body": {"id": "g1", "traceId": "t1", "model": "m", "input": MESSAGES}},
        {"type": "generation-update", "body": {"id": "g1", "output": "Yes.", "usage": {"input": 120, "output": 7}}},
    ]
    rows, source = read(document(tmp_path / "a.json", {"batch": events, "metadata": {}}))
    counts = [(each["session"], each["prompt_tokens"], each["output_tokens"], each["messages"]) for each in rows]
    assert counts == [("s1", 120, 7, WANTED)]
    assert dict(source.left_out.counts) == {"trace event": 2}
