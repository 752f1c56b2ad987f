"""What answers say that a first reading leaves out: counts of 0, whole blocks, calls between a provider's tools, diagnoses."""

from __future__ import annotations

import json
import random
from collections import Counter
from math import gcd
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.accounting.misses.read_steps import step_of_reads
from kvtool.results.report import Report


@pytest.fixture
def profiled(tmp_path: Path, bytes_json: str) -> Any:
    def profile(records: list[dict[str, Any]], **options: Any) -> Report:
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return kvtool.profile(str(path), tokenizer=bytes_json, **options)

    return profile


def made_text(number: int, characters: int) -> str:
    source = random.Random(number)
    return "".join(source.choice("abcdefgh ") for _ in range(characters))


def causes_of(report: Report) -> dict[str, int]:
    assert report.misses is not None
    return {cause: each.tokens for cause, each in report.misses.by_cause.items()}


def chat(number: int, prompt: str, read: int, **fields: Any) -> dict[str, Any]:
    details = {"cached_tokens": read}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": 1, "prompt_tokens_details": details}
    answer = {"id": f"c{number}", "choices": [{"message": {"role": "assistant", "content": "ok"}}], "usage": usage}
    return {"timestamp": 1_790_000_000 + 9 * number, "prompt": prompt, "model": "own-7b", "response": answer, **fields}


def test_reads_in_whole_blocks_lose_only_what_is_no_rest_of_one(profiled: Any) -> None:
    fronts = [made_text(number, characters) for number, characters in enumerate((1_500, 2_500, 5_400))]
    records = []
    for number in range(24):
        front = fronts[number % 3]
        read = 0 if number < 3 or number == 20 else len(front) // 2_048 * 2_048
        records.append(chat(number, front + made_text(100 + number, 90), read, response_cost=0.5))
    report = profiled(records, advice=False)
    found = causes_of(report)
    assert found.keys() == {"below_minimum", "partial_block", "unknown"}
    assert abs(found["below_minimum"] - 7 * 1_500) <= 7 * 64
    assert abs(found["unknown"] - 5_400) <= 128, "a whole block that was not read is a loss"
    assert "Cost in the log: $12.00 for 24 requests." in report.money.notices


def test_a_step_is_known_where_chance_does_not_give_it() -> None:
    source = random.Random(7)
    for _ in range(300):
        step = source.choice((16, 48, 256, 1_600))
        reads = [source.randrange(12) * step for _ in range(source.randrange(1, 9))]
        found, different = step_of_reads(reads), {read for read in reads if read}
        if found is not None:
            assert all(read % found == 0 for read in reads)
            assert found >= 64 or len(different) >= 3
        if len(different) >= 3:
            assert found == gcd(*different)
    assert [step_of_reads(reads) for reads in ([5_888] * 3, [5_889] * 3, [0], [100, 164])] == [256, None, None, None]


def gemini(number: int, schema: str, read: int, document: str) -> dict[str, Any]:
    text = f"{document} question {number:04}"
    usage = {"promptTokenCount": len(text), "candidatesTokenCount": 2}
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "title": schema}}
    request = {"contents": [{"role": "user", "parts": [{"text": text}]}], "generationConfig": config}
    answer = {
        "candidates": [{"content": {"parts": [{"text": "{}"}]}}],
        "usageMetadata": usage | ({"cachedContentTokenCount": read} if read else {}),
    }
    time = f"2026-10-20T09:00:{number:02}Z"
    return {"timestamp": time, "request": {**request, "model": "gemini-3-flash"}, "response": answer}


def test_gemini_leaves_out_a_count_of_zero_and_keeps_schemas_apart(profiled: Any) -> None:
    document, seen, records = made_text(1, 8_200), set[str](), []
    for number, schema in enumerate("aabbacb"):
        records.append(gemini(number, schema, 8_192 if schema in seen else 0, document))
        seen.add(schema)
    report = profiled(records, advice=False)
    assert (report.misses.requests, report.misses.unreported) == (7, 0)
    assert report.reported.hit_rate < 0.6
    assert Counter(event.cause for event in report.misses.events) == {"setting_changed": 2}


def messages(number: int, blocks: list[dict[str, Any]], history: list[dict[str, Any]], **usage: Any) -> dict[str, Any]:
    marked = [*history[:-1], {**history[-1], "content": [{**history[-1]["content"][0], "cache_control": MARK}]}]
    system = [{"type": "text", "text": made_text(0, 6_000), "cache_control": MARK}]
    request = {"model": "claude-opus-4-8", "max_tokens": 9, "system": system, "messages": marked}
    answer = {"type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": blocks}
    answer |= {"id": f"m{number}", "usage": {**usage, "output_tokens": 3}}
    time = f"2026-10-20T09:00:{number:02}Z"
    return {"timestamp": time, "session_id": "s", "request": request, "response": answer}


MARK = {"type": "ephemeral"}


def test_calls_between_the_tools_of_a_provider_are_no_prefix(profiled: Any) -> None:
    history: list[dict[str, Any]] = []
    records, stored = [], 0
    for number in range(8):
        history.append({"role": "user", "content": [{"type": "text", "text": made_text(number + 1, 500)}]})
        prompt = 6_000 + sum(len(block.get("text", "")) for each in history for block in each["content"])
        read, blocks = stored, [{"type": "text", "text": "ok"}]
        if number == 4:
            blocks = [{"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}}, *blocks]
            read += prompt  # the call after the tool reads all of it again
        usage = {"input_tokens": 0, "cache_read_input_tokens": read, "cache_creation_input_tokens": prompt - stored}
        records.append(messages(number, blocks, history, **usage))
        history.append({"role": "assistant", "content": blocks})
        stored = prompt
    report = profiled(records, advice=False)
    assert causes_of(report) == {}
    assert report.misses.rule_contradictions == []


def converse(number: int, **fields: Any) -> dict[str, Any]:
    tool = {"toolSpec": {"name": "find", "description": made_text(3, 300), "inputSchema": {"json": {}}}}
    system, asked = made_text(4, 7_000), made_text(number + 9, 60)
    body = {"system": [{"text": system}], "messages": [{"role": "user", "content": [{"text": asked}]}]}
    usage = {"inputTokens": 7_600, "outputTokens": 1, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 0}
    tools = [tool, *fields.pop("after_tools", ())]
    return {
        "schemaType": "ModelInvocationLog",
        "timestamp": f"2026-10-20T09:00:{number:02}Z",
        "operation": "Converse",
        "modelId": "us.anthropic.claude-sonnet-4-6",
        "input": {"inputBodyJson": {**body, "toolConfig": {"tools": tools}, **fields}},
        "output": {"outputBodyJson": {"usage": usage}},
    }


@pytest.mark.parametrize("fields", [{"cache_control": MARK}, {"after_tools": [{"cachePoint": {"type": "default"}}]}])
def test_a_request_without_a_mark_that_counts_has_no_other_cause(profiled: Any, fields: dict[str, Any]) -> None:
    report = profiled([converse(number, **fields) for number in range(5)], advice=False)
    assert causes_of(report).keys() == {"not_marked"}, (
        "Converse has no mark of a whole request; a short mark stores nothing"
    )
    assert report.predicted is not None
    assert report.predicted.cached_tokens == 0


def test_the_provider_says_in_a_transcript_why_it_missed(profiled: Any) -> None:
    records, before, read = [], None, 0
    for number in range(6):
        usage = {
            "input_tokens": 2,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": 9_000 + 500 * number - read,
        }
        message = {
            "role": "assistant",
            "id": f"m{number}",
            "model": "claude-opus-5",
            "content": [{"type": "text", "text": "ok"}],
        }
        if number == 4:
            usage |= {"cache_read_input_tokens": 3_000, "cache_creation_input_tokens": 8_000}
            message["diagnostics"] = {
                "cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 7_500}
            }
        for kind, inner in (
            ("user", {"role": "user", "content": f"step {number}"}),
            ("assistant", {**message, "usage": usage}),
        ):
            line = {"type": kind, "sessionId": "s", "uuid": f"{kind}{number}", "parentUuid": before, "message": inner}
            records.append({**line, "timestamp": f"2026-10-20T09:00:{number:02}Z"})
            before = line["uuid"]
        read = 9_000 + 500 * number
    report = profiled(records, advice=False)
    assert [(each.cause, each.certainty) for each in report.misses.events] == [("history_edited", "proven")]
