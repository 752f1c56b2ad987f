"""What benchmarks write: AIPerf's inputs, raw export and figures, guidellm's report, the lines of vLLM's; stored completions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workload.logs.reading_made import Read, lines, refusal

USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}


def said(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def raw(text: str, responses: Any, **more: Any) -> dict[str, Any]:
    told = {"conversation_id": "c-1", "x_request_id": f"x-{text}", "request_start_ns": 1761555600_000000000}
    metadata = told | more.pop("metadata", {})
    return {"metadata": metadata, "payload": said(text), "status": 200, "responses": responses, **more}


def test_answers_in_the_raw_export_of_aiperf(tmp_path: Path) -> None:
    whole = json.dumps({"choices": [{"message": {"role": "assistant", "content": "b"}}], "usage": USAGE})
    chunks = [{"object": "chat.completion.chunk", "choices": [{"delta": {"content": "b"}}]}]
    chunks.append({"object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    packets = [{"perf_ns": 1, "packets": [{"name": "data", "value": json.dumps(each)}]} for each in chunks]
    packets.append({"perf_ns": 2, "packets": [{"name": "data", "value": "[DONE]"}]})
    read = Read(
        lines(
            tmp_path / "a.jsonl",
            raw("a", [{"perf_ns": 1, "text": whole}]),
            raw("b", packets),
            raw("w", [], metadata={"benchmark_phase": "warmup"}),
            raw("f", [], status=500),
            raw("e", None, error={"code": 499}),
        )
    )
    assert read.of("said") == ["b", "b"]
    assert read.of("cached_tokens") == [4, 4]
    assert read.of("session") == ["c-1", "c-1"]
    assert read.left_out == {"warm-up request": 1, "failed": 2}


def test_inputs_of_aiperf(tmp_path: Path) -> None:
    path = tmp_path / "inputs.json"
    payloads = [said("a"), {"prompt": "p", "model": "m"}, {"model": "m", "voice": "x"}]
    path.write_text(
        json.dumps({"data": [{"session_id": "s", "payloads": payloads}, {"session_id": "t", "payloads": []}]}, indent=2)
    )
    read = Read(path)
    assert read.of("session") == ["s", "s"]
    assert read.of("turn") == [0, 1]
    assert read.left_out == {"other request": 1}


def test_figures_of_aiperf_are_refused(tmp_path: Path) -> None:
    figures = {"metadata": {"request_start_ns": 1}, "metrics": {"request_latency": {"value": 1}}, "error": None}
    error = refusal(lines(tmp_path / "a.jsonl", figures))
    assert error.message.startswith("AIPerf's export of figures")
    assert "--export-level raw" in (error.hint or "")


def request(own: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {
        "request_id": own,
        "request_args": arguments if isinstance(arguments, str) else json.dumps(arguments),
        "info": {"timings": {"request_start": 1761555600.0, "request_end": 1761555601.5}},
        "input_metrics": {"text_tokens": 9},
        "output_metrics": {"text_tokens": 2, "total_tokens": 3},
        **more,
    }


def test_reports_of_guidellm_in_each_form(tmp_path: Path) -> None:
    good = [
        request("1", {"method": "POST", "body": said("a")}),
        request("2", {"json": said("b"), "headers": {}}),
        request("3", said("c")),
        {"request_id": "4", "prompt": "d", "prompt_tokens": 9, "output_tokens": 3, "start_time": 1761555600},
        request("5", "not JSON"),
    ]
    requests = {"successful": good, "errored": [request("6", said("e"))], "incomplete": []}
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps({"metadata": {}, "benchmarks": [{"requests": requests}, {"requests": {"successful": []}}]})
    )
    read = Read(path)
    assert [row["text"] if "text" in row else row["messages"][0][1] for row in read.rows] == ["a", "b", "c", "d"]
    assert read.of("time") == [1761555600] * 4
    assert read.of("prompt_tokens") == [9] * 4
    assert read.of("output_tokens") == [3] * 4
    assert read.left_out == {"request without its arguments": 1, "failed": 1}


@pytest.mark.parametrize("count", [1.5, "9"])
def test_counts_of_guidellm_that_cannot_be(tmp_path: Path, count: Any) -> None:
    wrong = request("1", said("secret"), input_metrics={"total_tokens": count})
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"benchmarks": [{"requests": {"successful": [wrong]}}]}, indent=1))
    error = refusal(path)
    assert "secret" not in error.message
    assert error.place is not None
    assert (error.place.line or 0) > 1


def test_lines_for_the_benchmark_of_vllm_are_no_prompt(tmp_path: Path) -> None:
    for name, text in (
        ("sonnet.txt", "One line\nand another\n"),
        ("x.txt", "FROM fairest creatures we desire increase,\n"),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert refusal(path).message.startswith("this file is the source text of vLLM's benchmark")
    path = tmp_path / "prompt.txt"
    path.write_text("Write a sonnet.\n")
    assert Read(path).of("text") == ["Write a sonnet.\n"]


def test_stored_completions(tmp_path: Path) -> None:
    for name in ["messages", "request_messages", "input_messages"]:
        answer = {"id": "c", "object": "chat.completion", "created": 1761555600, "model": "m", "usage": USAGE}
        answer["choices"] = [{"message": {"role": "assistant", "content": "b"}}]
        path = tmp_path / "a.json"
        path.write_text(
            json.dumps({"object": "list", "data": [{**answer, name: said("a")["messages"]}], "has_more": False})
        )
        [row] = Read(path).rows
        assert (row["said"], row["cached_tokens"], row["time"]) == ("b", 4, 1761555600)
        path.write_text(json.dumps({"object": "list", "data": [answer]}))
        assert refusal(path).message.startswith("an answer of the chat API without its request")


def test_usage_of_openrouter_and_deepseek(tmp_path: Path) -> None:
    router = {**USAGE, "cost": 0.0125, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}
    deep = {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5, "completion_tokens": 2}
    pairs = [
        {"request": said("a"), "response": {"usage": router, "provider": "P"}},
        {"request": said("b"), "response": {"usage": deep}},
    ]
    read = Read(lines(tmp_path / "a.jsonl", *pairs))
    assert read.of("cached_tokens") == [4, 4]
    assert read.of("cache_write_tokens") == [3, None]
    assert str(read.rows[0]["call"].cost) == "0.0125"
    assert read.rows[0]["call"].provider == "P"
