"""Bedrock's log of invocations: Converse and the models' own bodies, streams, what has no body or failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workload.logs.reading_made import Read, lines, refusal


def record(operation: str, asked: Any, answer: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "schemaType": "ModelInvocationLog",
        "timestamp": "2025-10-27T09:00:00Z",
        "accountId": "1",
        "region": "us-east-1",
        "requestId": f"q-{len(json.dumps(asked))}",
        "operation": operation,
        "modelId": "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-5",
        "input": {"inputBodyJson": asked, **more.pop("given", {})},
        "output": {"outputBodyJson": answer, **more.pop("output", {})},
        **more,
    }


def converse(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"text": text}]}], **more}


def test_blocks_of_converse(tmp_path: Path) -> None:
    tool = {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}
    body = {
        "system": [{"text": "S"}, {"cachePoint": {"type": "default", "ttl": "1h"}}],
        "messages": [
            {"role": "user", "content": [{"text": "a"}, {"image": {"format": "png", "source": {}}}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {"x": 1}}}]},
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"y": 2}}, {"text": "z"}]}}],
            },
            {"role": "assistant", "content": [{"reasoningContent": {}}, {"text": "b"}]},
            {"role": "user", "content": [{"text": "c"}, {"cachePoint": {"type": "default"}}]},
        ],
        "toolConfig": {"tools": [tool, {"cachePoint": {"type": "default"}}]},
    }
    answer = {
        "output": {"message": {"role": "assistant", "content": [{"text": "d"}]}},
        "usage": {"inputTokens": 10, "outputTokens": 2, "cacheReadInputTokens": 90, "cacheWriteInputTokens": 0},
    }
    made = record("Converse", body, answer, requestMetadata={"session_id": "s", "team": "x", "user_id": "u"})
    [row] = Read(lines(tmp_path / "a.json", made)).rows
    assert [role for role, _ in row["messages"]] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert row["messages"][3] == ["tool", '{"y": 2}z']
    assert row["tools"] == ["f"]
    assert row["said"] == "d"
    assert (row["prompt_tokens"], row["cached_tokens"], row["cache_write_tokens"]) == (100, 90, 0)
    assert (row["session"], row["tenant"]) == ("s", "u")
    assert row["model"] == "anthropic.claude-sonnet-4-5"
    assert dict(row["call"].uncounted) == {"image": 1}
    assert (row["call"].scope.organisation, row["call"].scope.region) == ("1", "us-east-1")


def test_a_body_of_converse_outside_of_the_log(tmp_path: Path) -> None:
    pair = {"request": {"modelId": "m", **converse("a")}, "response": {"usage": {"inputTokens": 3, "outputTokens": 1}}}
    [row] = Read(lines(tmp_path / "a.jsonl", pair)).rows
    assert row["messages"] == [["user", "a"]]
    assert row["prompt_tokens"] == 3
    assert row["model"] == "m"


def test_models_that_take_one_text(tmp_path: Path) -> None:
    for given, answer, text in [
        ({"inputText": "User: a"}, [{"outputText": "b"}, {"outputText": "c"}], "User: a"),
        ({"prompt": "<s>a"}, {"generation": "bc", "prompt_token_count": 4}, "<s>a"),
        (json.dumps({"prompt": "<s>a"}), json.dumps({"generation": "bc"}), "<s>a"),
        ({"message": "hello"}, {"text": "bc"}, "hello"),
    ]:
        made = record("InvokeModel", given, answer, given={"inputTokenCount": 4}, output={"outputTokenCount": 2})
        [row] = Read(lines(tmp_path / "a.jsonl", made)).rows
        assert row["text"] == text
        assert row["said"] == "bc"
        assert (row["prompt_tokens"], row["output_tokens"]) == (4, 2)


def test_a_streamed_answer(tmp_path: Path) -> None:
    events = [
        {
            "type": "message_start",
            "message": {"id": "m", "model": "x", "usage": {"input_tokens": 5, "cache_read_input_tokens": 20}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    ]
    body = {"anthropic_version": "v", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}
    [row] = Read(lines(tmp_path / "a.jsonl", record("InvokeModelWithResponseStream", body, events))).rows
    assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"], row["said"]) == (25, 20, 7, "b")


def test_what_is_no_call_is_told(tmp_path: Path) -> None:
    failed = record("Converse", converse("a"), errorCode="ThrottlingException")
    stored = record("Converse", None, given={"inputBodyS3Path": "s3://x"})
    bare = record("InvokeModel", {}, given={"inputTokenCount": 5})
    embeds = record("InvokeModel", {"inputText": "a"}, modelId="amazon.titan-embed-text-v2:0")
    read = Read(lines(tmp_path / "a.jsonl", failed, stored, record("Converse", converse("fine")), bare, embeds))
    assert read.of("messages") == [[["user", "fine"]]]
    assert read.left_out == {
        "failed": 1,
        "request with its body in S3": 1,
        "request without its body": 1,
        "embedding": 1,
    }


def test_exports_of_cloudwatch(tmp_path: Path) -> None:
    inner = json.dumps(record("Converse", converse("a")))
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"events": [{"timestamp": 1, "message": inner}], "searchedLogStreams": []}, indent=1))
    assert Read(path).of("messages") == [[["user", "a"]]]
    assert Read(path).of("time") == [1761555600]


def test_times(tmp_path: Path) -> None:
    for time in ["2025-10-27T09:00:00Z", "2025-10-27 09:00:00", "2025-10-27T10:00:00+01:00", 1761555600, 1761555600000]:
        assert Read(lines(tmp_path / "a.jsonl", record("Converse", converse("a"), timestamp=time))).of("time") == [
            1761555600
        ]


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        ({"inputTokens": 1.5}, "whole number of tokens"),
        ({"inputTokens": "12"}, "whole number of tokens"),
    ],
)
def test_counts_that_cannot_be(tmp_path: Path, usage: Any, message: str) -> None:
    error = refusal(lines(tmp_path / "a.jsonl", record("Converse", converse("secret"), {"usage": usage})))
    assert message in error.message
    assert "secret" not in error.message
    assert error.place is not None
    assert error.place.line == 1
    assert (error.place.column or 0) > 1
