"""Answers kept as a stream of events: text, calls of tools, counts; whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtool.workload.logs.records.streamed_answers import answer_in
from tests.workload.logs.reading_made import Read, lines, refusal

BODY = {"model": "m", "messages": [{"role": "user", "content": "a"}]}


def stream(*events: Any, end: str = "\n\n") -> str:
    return "".join(f"data: {each if isinstance(each, str) else json.dumps(each)}{end}" for each in events)


def chunk(**fields: Any) -> dict[str, Any]:
    return {"id": "c-1", "object": "chat.completion.chunk", "model": "m-2", **fields}


def test_chunks_of_a_chat_with_calls(tmp_path: Path) -> None:
    events = [
        chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": "b"}}]),
        chunk(choices=[{"index": 0, "delta": {"content": "c"}}, {"index": 1, "delta": {"content": "other"}}]),
        chunk(
            choices=[
                {"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": '{"x"'}}]}}
            ]
        ),
        chunk(
            choices=[{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}}],
            usage=None,
        ),
        chunk(
            choices=[],
            usage={"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}},
        ),
    ]
    for number, value in enumerate(
        (stream(*events, "[DONE]"), events, [stream(each) for each in events], stream(*events, "[DONE]").split("\n"))
    ):
        [row] = Read(lines(tmp_path / f"{number}.jsonl", {"request": BODY, "response": value})).rows
        assert row["said"].startswith('bc[{"type":"function","function":{"name":"f","arguments":"{\\"x\\":1}"}}]')
        assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) == (9, 8, 4)


def test_events_of_anthropic_with_names_and_comments(tmp_path: Path) -> None:
    text = (
        ": ping\r\n\r\nevent: message_start\r\n"
        'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":2,"cache_read_input_tokens":6}}}\r\n\r\n'
        'event: content_block_delta\r\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}\r\n\r\n'
        'event: message_delta\r\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":5}}\r\n\r\n'
    )
    [row] = Read(lines(tmp_path / "a.jsonl", {"request": BODY, "response": {"status": 200, "body": text}})).rows
    assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"], row["said"]) == (8, 6, 5, "b")


def test_the_last_event_of_responses_is_the_answer(tmp_path: Path) -> None:
    whole = {"id": "r-1", "model": "m", "output": [], "usage": {"input_tokens": 4, "output_tokens": 2}}
    events = [
        {"type": "response.created", "response": {"id": "r-1"}},
        {"type": "response.completed", "response": whole},
    ]
    value = {"request": {"model": "m", "instructions": "S", "input": "a"}, "response": stream(*events)}
    [row] = Read(lines(tmp_path / "a.jsonl", value)).rows
    assert (row["prompt_tokens"], row["output_tokens"]) == (4, 2)


def test_a_stream_that_fails_is_no_traffic_and_one_that_is_cut_off_is(tmp_path: Path) -> None:
    failed = {"request": BODY, "response": stream({"error": {"message": "overloaded"}})}
    cut = {"request": BODY, "response": stream(chunk(choices=[{"delta": {"content": "b"}}])) + 'data: {"cho'}
    read = Read(lines(tmp_path / "a.jsonl", failed, cut))
    assert read.left_out == {"failed": 1}
    assert read.of("said") == ["b"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "text",
                    "type",
                    "usage",
                    "message",
                    "index",
                    "tool_calls",
                    "function",
                    "candidates",
                    "parts",
                    "contentBlockDelta",
                    "contentBlockStart",
                    "start",
                    "toolUse",
                    "content_block",
                    "response",
                    "metadata",
                    "outputText",
                    "object",
                    "arguments",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(_json, min_size=1, max_size=4))
def test_no_events_break_it(events: list[Any]) -> None:
    answer_in(stream(*events))
    answer_in(
        [{"object": "chat.completion.chunk", "delta": each, "choices": each, "candidates": each} for each in events]
    )


def test_fields_of_other_kinds_than_a_format_has_are_a_bad_record(tmp_path: Path) -> None:
    for number, record in enumerate(
        ({"type": [], "payload": {}}, {"source": {}, "action": "x"}, {"log": {"entries": 5}})
    ):
        assert refusal(lines(tmp_path / f"{number}.jsonl", record)).place is not None
