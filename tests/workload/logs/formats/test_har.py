"""HAR: calls among other traffic, streams and base64, headers, what failed or is no call."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.workload.logs.reading_made import Read, refusal

CHAT = "https://api.openai.com/v1/chat/completions"
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}


def entry(url: str, posted: Any, answer: Any, **more: Any) -> dict[str, Any]:
    content = {"mimeType": "application/json", "text": answer if isinstance(answer, str) else json.dumps(answer)}
    return {
        "startedDateTime": more.pop("began", "2025-10-27T10:00:00.000+01:00"),
        "time": 1500,
        "request": {
            "method": "POST",
            "url": url,
            "headers": more.pop("headers", []),
            "postData": {"mimeType": "application/json", "text": json.dumps(posted)},
        },
        "response": {"status": more.pop("status", 200), "headers": [], "content": content | more},
    }


def archive(path: Path, *entries: Any) -> Path:
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}, indent=2))
    return path


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def test_a_stream_and_base64(tmp_path: Path) -> None:
    stream = (
        f'data: {{"choices":[{{"delta":{{"content":"b"}}}}]}}\n\ndata: {{"choices":[],"usage":{json.dumps(USAGE)}}}\n\n'
    )
    coded = base64.b64encode(stream.encode()).decode()
    read = Read(
        archive(
            tmp_path / "a.har",
            entry(CHAT, said("a", model="m"), stream),
            entry(CHAT, said("b", model="m"), coded, encoding="base64", began="2025-10-27T09:00:05Z"),
        )
    )
    assert read.of("said") == ["b", "b"]
    assert read.of("cached_tokens") == [4, 4]
    assert read.of("time") == [1761555600, 1761555605]
    assert read.rows[0]["call"].end == 1761555601.5


def test_other_apis_and_what_only_the_address_says(tmp_path: Path) -> None:
    gemini = {"contents": [{"parts": [{"text": "g"}]}]}
    google = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent?key=k"
    aws = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude/converse"
    azure = "https://x.openai.azure.com/openai/deployments/gpt-mine/chat/completions?api-version=1"
    headers = [{"name": "X-Session-Id", "value": "s-1"}, {"name": "OpenAI-Organization", "value": "o-1"}]
    read = Read(
        archive(
            tmp_path / "a.har",
            entry(google, gemini, {"candidates": [], "usageMetadata": {"promptTokenCount": 3}}),
            entry(aws, {"messages": [{"role": "user", "content": [{"text": "c"}]}]}, {"usage": {"inputTokens": 5}}),
            entry(azure, said("z"), {"usage": USAGE}, headers=headers),
        )
    )
    assert read.of("model") == ["gemini-2.5-pro", "anthropic.claude", "gpt-mine"]
    assert read.of("prompt_tokens") == [3, 5, 9]
    assert read.rows[2]["session"] == "s-1"
    assert read.rows[2]["call"].scope.organisation == "o-1"


def test_headers_of_an_answer_name_the_account_and_the_request(tmp_path: Path) -> None:
    headers = [{"OpenAI-Organization": "o-2"}, {"OpenAI-Organization": "o-3", "X-Request-ID": "req_9"}]
    lines = [
        {
            "request": said("a", model="m"),
            "response": {"id": f"chatcmpl-{at}", "usage": USAGE},
            "response_headers": each,
        }
        for at, each in enumerate(headers, 1)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    calls = [row["call"] for row in Read(path).rows]
    assert [call.scope.organisation for call in calls] == ["o-2", "o-3"]
    assert [call.request_id for call in calls] == ["chatcmpl-1", "req_9"]


def test_what_is_no_call_is_told(tmp_path: Path) -> None:
    read = Read(
        archive(
            tmp_path / "a.har",
            entry("https://shop.test/search", {"prompt": "not a model", "text": "x"}, {}),
            entry("https://api.openai.com/v1/embeddings", {"model": "text-embedding-3-small", "input": "x"}, {}),
            entry("https://api.anthropic.com/v1/messages/count_tokens", said("a", model="m"), {}),
            entry(CHAT, said("failed", model="m"), {"error": {}}, status=429),
            {"request": {"method": "GET", "url": CHAT}, "response": {"status": 200}},
            {"request": {"method": "POST", "url": CHAT, "postData": {"text": "%%"}}},
            entry("https://my.gateway/llm", said("kept", model="m"), {"usage": USAGE}),
        )
    )
    assert read.of("messages") == [[["user", "kept"]]]
    assert read.left_out == {"other request": 5, "failed": 1}


@pytest.mark.parametrize("usage", [{"prompt_tokens": "many"}, {"prompt_tokens": 1.5}])
def test_counts_that_cannot_be(tmp_path: Path, usage: Any) -> None:
    error = refusal(archive(tmp_path / "a.har", entry(CHAT, said("secret", model="m"), {"usage": usage})))
    assert "secret" not in error.message
    assert error.place is not None
    assert (error.place.line or 0) > 1


def test_entries_that_are_none(tmp_path: Path) -> None:
    assert "entries[0] must be an object" in refusal(archive(tmp_path / "a.har", 5)).message


def test_entries_of_a_long_archive_are_records_of_their_own(tmp_path: Path) -> None:
    entries = [entry(CHAT, said("x" * size, model="m"), {"usage": USAGE}) for size in (10, 90_000, 20)]
    page = {"id": "p", "title": "t", "startedDateTime": "2025-10-27T10:00:00Z", "pageTimings": {}}
    log = {"version": "1.2", "creator": {"name": "c"}, "pages": [page], "entries": entries, "comment": "y" * 90_000}
    for indent in (None, 1):
        path = tmp_path / "a.har"
        path.write_text(json.dumps({"log": log, "_more": [1]}, indent=indent))
        read = Read(path)
        assert [len(row["messages"][0][1]) for row in read.rows] == [10, 90_000, 20]
        assert read.source.records == 3
        assert read.left_out == {}


def test_what_is_wrong_in_a_long_archive_has_its_place(tmp_path: Path) -> None:
    entries = [entry(CHAT, said("x" * 90_000, model="m"), {"usage": USAGE}) for _ in range(2)]
    path = archive(tmp_path / "a.har", *entries)
    whole = path.read_text()
    path.write_text(whole[: len(whole) - 2_000])
    error = refusal(path)
    assert error.place is not None
    assert error.place.line is not None
    assert error.place.line > 15
    assert "xxx" not in f"{error.message}{error.place}"
    path.write_text(whole.replace('"entries": [', '"entries": [3, '))
    assert refusal(path).place is not None
