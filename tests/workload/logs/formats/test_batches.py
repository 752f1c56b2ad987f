"""Batches: requests joined with answers that stand in other files and orders; what failed; answers alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.overview import overview_of
from tests.workload.logs.reading_made import Read, lines, refusal


def asked(number: int) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": f"question {number}"}]}
    return {"custom_id": f"c-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def answered(number: int, **usage: Any) -> dict[str, Any]:
    usage = usage or {
        "prompt_tokens": 10 + number,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": number},
    }
    choices = [{"message": {"role": "assistant", "content": f"answer {number}"}}]
    answer = {"id": f"r-{number}", "created": 1761555600 + number, "model": "m-1", "choices": choices, "usage": usage}
    return {"id": "b", "custom_id": f"c-{number}", "response": {"status_code": 200, "body": answer}, "error": None}


def test_answers_in_any_order_before_or_behind(tmp_path: Path) -> None:
    asks = lines(tmp_path / "in.jsonl", *(asked(number) for number in range(4)))
    answers = lines(tmp_path / "out.jsonl", *(answered(number) for number in (3, 1, 0)))
    for order in ((asks, answers), (answers, asks)):
        read = Read(*order)
        assert read.of("prompt_tokens") == [10, 11, None, 13]
        assert read.of("cached_tokens") == [0, 1, None, 3]
        assert read.of("said") == ["answer 0", "answer 1", None, "answer 3"]
        assert read.of("model") == ["m-1", "m-1", "m", "m-1"]
        assert read.left_out == {}
        assert all(row["call"].settings.batch for row in read.rows)


def test_all_in_one_file(tmp_path: Path) -> None:
    read = Read(lines(tmp_path / "a.jsonl", asked(0), answered(0), asked(1), answered(1)))
    assert read.of("prompt_tokens") == [10, 11]


def test_two_batches_that_count_alike(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        asks = lines(tmp_path / f"{name}-in.jsonl", *(asked(number) for number in range(2)))
        usage = {"prompt_tokens": 50 if name == "a" else 60, "completion_tokens": 1}
        paths += [asks, lines(tmp_path / f"{name}-out.jsonl", *(answered(number, **usage) for number in range(2)))]
    assert Read(*paths).of("prompt_tokens") == [50, 50, 60, 60]
    assert Read(paths[0], paths[2], paths[1]).of("prompt_tokens") == [None] * 2  # a file that is given twice


def test_what_failed_is_left_out_once(tmp_path: Path) -> None:
    asks = lines(tmp_path / "in.jsonl", *(asked(number) for number in range(3)))
    bad = {"custom_id": "c-0", "response": {"status_code": 400, "body": {"error": {}}}, "error": None}
    late = {"custom_id": "c-1", "response": None, "error": {"code": "batch_expired"}}
    read = Read(asks, lines(tmp_path / "out.jsonl", bad, late, answered(2)))
    assert read.of("prompt_tokens") == [12]
    assert read.left_out == {"failed": 2}


def test_results_of_anthropic_with_a_list_of_requests(tmp_path: Path) -> None:
    params = {"model": "c", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}]}
    (tmp_path / "in.json").write_text(
        json.dumps({"requests": [{"custom_id": i, "params": params} for i in ("x", "y", "z")]})
    )
    usage = {"input_tokens": 1, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 2, "output_tokens": 3}
    message = {"id": "m", "type": "message", "content": [{"type": "text", "text": "b"}], "usage": usage}
    results = [
        {"custom_id": "z", "result": {"type": "succeeded", "message": message}},
        {"custom_id": "y", "result": {"type": "errored", "error": {}}},
        {"custom_id": "x", "result": {"type": "expired"}},
    ]
    read = Read(tmp_path / "in.json", lines(tmp_path / "out.jsonl", *results))
    [row] = read.rows
    assert (row["prompt_tokens"], row["cached_tokens"], row["cache_write_tokens"], row["said"]) == (11, 8, 2, "b")
    assert read.left_out == {"failed": 2}


def test_gemini_joins_by_key(tmp_path: Path) -> None:
    asks = [{"key": i, "request": {"contents": [{"parts": [{"text": i}]}]}} for i in ("a", "b")]
    answer = {"candidates": [{"content": {"parts": [{"text": "yes"}]}}], "usageMetadata": {"promptTokenCount": 4}}
    read = Read(lines(tmp_path / "in.jsonl", *asks), lines(tmp_path / "out.jsonl", {"key": "b", "response": answer}))
    assert read.of("prompt_tokens") == [None, 4]
    assert read.of("said") == [None, "yes"]


def test_answers_alone_are_told_and_no_workload(tmp_path: Path) -> None:
    bad = {"custom_id": "c-2", "response": {"status_code": 400, "body": {"error": {}}}, "error": None}
    source = LogSource([str(lines(tmp_path / "out.jsonl", answered(0), answered(1), bad))])
    told = overview_of(source, rows=True, full=True)
    assert (told.requests, told.left_out, told.usage["prompt"]) == (2, {"failed": 1}, 2)
    assert told.incomplete == {"its prompt is not in the log": 2}
    assert [(row.id, row.prompt_tokens, row.messages, row.text) for row in told.rows or ()] == [
        ("c-0", 10, None, None),
        ("c-1", 11, None, None),
    ]
    with pytest.raises(KvtoolError, match="it contains no model request"):
        list(source.conversations())


def test_answers_alone_are_refused_by_name(tmp_path: Path) -> None:
    error = refusal(lines(tmp_path / "out.jsonl", answered(0), answered(1)))
    assert error.message.endswith("left out: 2 batch answers without the request")
    assert "input file" in (error.hint or "")
    assert "answer 0" not in f"{error.message}{error.hint}"


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        ({"prompt_tokens": "5"}, "whole number of tokens"),
    ],
)
def test_counts_that_cannot_be(tmp_path: Path, usage: Any, message: str) -> None:
    error = refusal(lines(tmp_path / "in.jsonl", asked(0)), lines(tmp_path / "out.jsonl", answered(0, **usage)))
    assert message in error.message
    assert f"{tmp_path}/out.jsonl:1" in error.message
    assert error.place is not None
