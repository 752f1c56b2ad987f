"""Bodies of Gemini's API: parts, functions, names of both spellings, batches of Vertex, what is not text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.workload.logs.reading_made import Read, lines, refusal


def asked(text: str, **more: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}], **more}


def answered(text: str, **usage: Any) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": text}]}}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-pro",
        "responseId": f"r-{text}",
    }


def test_functions_of_a_conversation(tmp_path: Path) -> None:
    body = {
        "system_instruction": "Be kind.",
        "contents": [
            {"role": "user", "parts": [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"y": 2}}}]},
            {"role": "model", "parts": [{"text": "thinking", "thought": True}, {"text": "b"}]},
            {"parts": {"text": "c"}},
        ],
        "tools": [{"function_declarations": [{"name": "f"}, {"name": "g"}]}, {"googleSearch": {}}],
        "labels": {"session_id": "s-1", "user_id": "u-1"},
    }
    read = Read(lines(tmp_path / "a.jsonl", body))
    [row] = read.rows
    assert [role for role, _ in row["messages"]] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert row["messages"][3] == ["tool", '{"y": 2}']
    assert row["messages"][4:] == [["assistant", "b"], ["user", "c"]]
    assert row["tools"] == ["f", "g"]
    assert row["session"] == "s-1"
    assert row["tenant"] == "u-1"
    assert dict(row["call"].uncounted) == {"image": 1, "googlesearch": 1}


def test_contents_in_each_form_that_the_libraries_take(tmp_path: Path) -> None:
    for contents in ["hello", ["hello"], [{"parts": ["hello"]}], {"parts": [{"text": "hello"}]}]:
        body = {"model": "gemini-2.5-flash", "contents": contents, "config": {"system_instruction": "S", "tools": None}}
        [row] = Read(lines(tmp_path / "a.jsonl", body)).rows
        assert row["messages"] == [["system", "S"], ["user", "hello"]]
        assert row["model"] == "gemini-2.5-flash"


def test_usage_with_thoughts_and_the_text_of_the_answer(tmp_path: Path) -> None:
    usage = {"promptTokenCount": 50, "cachedContentTokenCount": 32, "candidatesTokenCount": 4, "thoughtsTokenCount": 6}
    pair = {"request": asked("a"), "response": answered("b", **usage)}
    [row] = Read(lines(tmp_path / "a.jsonl", pair)).rows
    assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) == (50, 32, 10)
    assert row["model"] == "gemini-2.5-pro"
    assert row["said"] == "b"


def test_a_streamed_answer_is_put_together(tmp_path: Path) -> None:
    first, last = answered("one "), answered("two", promptTokenCount=9, candidatesTokenCount=2)
    as_list = {"request": asked("a"), "response": [first, last]}
    as_text = {
        "request": asked("b"),
        "response": "".join(f"data: {json.dumps(each)}\r\n\r\n" for each in (first, last)),
    }
    read = Read(lines(tmp_path / "a.jsonl", as_list, as_text))
    assert read.of("said") == ["one two", "one two"]
    assert read.of("prompt_tokens") == [9, 9]


def test_logs_and_batches_of_vertex(tmp_path: Path) -> None:
    logged = {
        "endpoint": "e",
        "logging_time": "2025-10-27 09:00:00 UTC",
        "model": "gemini-2.5-pro",
        "full_request": json.dumps(asked("a")),
        "full_response": answered("b", promptTokenCount=7),
    }
    batched = {"status": "", "processed_time": "2025-10-27T09:00:00Z", "request": asked("c"), "response": answered("d")}
    failed = {"status": "Bad Request", "processed_time": "", "request": asked("e"), "response": {}}
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(json.dumps(each).encode() for each in (logged, batched, failed))))
    read = Read(path)
    assert read.of("said") == ["b", "d"]
    assert read.of("prompt_tokens") == [7, None]
    assert read.left_out == {"failed": 1}


def test_a_call_that_is_logged_twice_counts_once(tmp_path: Path) -> None:
    pair = {"request": asked("a"), "response": answered("b")}
    assert len(Read(lines(tmp_path / "a.jsonl", pair, pair)).rows) == 1


def test_an_explicit_cache_is_not_in_the_log(tmp_path: Path) -> None:
    [row] = Read(lines(tmp_path / "a.jsonl", asked("a", cachedContent="cachedContents/1"))).rows
    assert row["incomplete"] == "its cached content is not in the log"


def test_bad_records(tmp_path: Path) -> None:
    for body, message in [
        ({"contents": [{"role": "user", "parts": [{"text": 5}]}]}, "must be text"),
        ({"contents": [{"role": "user", "parts": [7]}]}, "instead of a part"),
        ({"contents": []}, "the list of messages is empty"),
        ({"request": asked("secret"), "response": answered("b", promptTokenCount=5.5)}, "whole number of tokens"),
        ({"request": asked("secret"), "response": answered("b", promptTokenCount="5")}, "whole number of tokens"),
    ]:
        error = refusal(lines(tmp_path / "a.jsonl", asked("fine"), body))
        assert message in error.message
        assert "secret" not in error.message
        assert error.place is not None
        assert error.place.line == 2
        assert error.place.column is not None


def test_a_last_line_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(asked("a")) + "\n" + json.dumps(asked("b"))[:-9])
    error = refusal(path)
    assert error.message.startswith("not JSON")
    assert error.place is not None
    assert error.place.line == 2


def test_what_is_embedded_and_what_failed_is_left_out(tmp_path: Path) -> None:
    embedded = {
        "request": {"model": "text-embedding-004", "content": {"parts": [{"text": "e"}]}},
        "response": {"embedding": {}},
    }
    failed = {"request": asked("f"), "response": {"error": {"code": 503}}}
    read = Read(lines(tmp_path / "a.jsonl", embedded, failed, {"request": asked("a"), "response": answered("b")}))
    assert read.of("said") == ["b"]
    assert read.left_out == {"embedding": 1, "failed": 1}
