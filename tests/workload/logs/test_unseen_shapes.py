"""Records of known formats as other versions of their tools write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workload.logs.reading_made import Read, lines, refusal

ASKED = [{"role": "user", "content": "Is the atlas in?"}]
SAID = [["user", "Is the atlas in?"]]


def span(**told: Any) -> dict[str, Any]:
    """A span of OTLP whose attributes are texts."""
    attributes = [{"key": name.replace("__", "."), "value": {"stringValue": value}} for name, value in told.items()]
    made = {"traceId": "t", "spanId": "1", "startTimeUnixNano": "1770000000000000000", "attributes": attributes}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [made]}]}]}


def test_data_in_a_prompt_is_counted_and_no_text_of_it(tmp_path: Path) -> None:
    for part, kind in [
        ({"type": "blob", "mime_type": "image/png", "content": "iVBORw0KGgo="}, "image"),
        ({"type": "blob", "modality": "audio", "content": "UklGRg=="}, "audio"),
        ({"type": "file", "mime_type": "application/pdf", "content": "JVBERi0="}, "file"),
    ]:
        said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Is the atlas in?"}, part]}])
        read = Read(lines(tmp_path / "a.jsonl", span(gen_ai__operation__name="chat", gen_ai__input__messages=said)))
        assert [row["messages"] for row in read.rows] == [SAID]
        assert dict(read.source.prompts.parts) == {kind: 1}


def test_messages_as_events_in_one_attribute(tmp_path: Path) -> None:
    events = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "Answer."},
        {"event.name": "gen_ai.user.message", "role": "user", "content": "Is the atlas in?"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Yes."}},
    ]
    read = Read(lines(tmp_path / "a.jsonl", span(gen_ai__operation__name="chat", events=json.dumps(events))))
    [row] = read.rows
    assert (row["messages"], row["said"]) == ([["system", "Answer."], *SAID], "Yes.")


def test_a_body_in_an_attribute(tmp_path: Path) -> None:
    body = json.dumps({"model": "m", "messages": ASKED})
    read = Read(lines(tmp_path / "a.jsonl", span(gen_ai__operation__name="chat", request_data=body)))
    assert read.of("messages") == [SAID]


def test_times_in_many_notations(tmp_path: Path) -> None:
    for written, seconds in [
        ("2026-01-02 03:04:05.5 UTC", 1767323045.5),
        ("2026-01-02T03:04:05Z", 1767323045.0),
        ("2026/01/02 03:04:05", 1767323045.0),
        ("2026-01-02T05:04:05+02:00", 1767323045.0),
        ("2026-01-02T03:04:05,5+0000", 1767323045.5),
        ("Fri, 02 Jan 2026 03:04:05 GMT", 1767323045.0),
        ("1767323045000", 1767323045.0),
        (1767323045000000000, 1767323045.0),
        ("yesterday", None),
        ("Fri, 99 Jan 2026 03:04:05 GMT", None),
    ]:
        assert Read(lines(tmp_path / "a.jsonl", {"prompt": "p", "created_at": written})).of("time") == [seconds]


def test_langfuse_as_it_is_exported_to_a_bucket(tmp_path: Path) -> None:
    row = {"id": "o", "trace_id": "t", "type": "GENERATION", "start_time": "2026-01-02 03:04:05.123"}
    row |= {"provided_model_name": "m", "input": json.dumps(ASKED), "usage_details": {"input": 5, "output": 1}}
    read = Read(lines(tmp_path / "a.jsonl", row))
    assert (read.of("model"), read.of("prompt_tokens"), read.of("messages")) == (["m"], [5], [SAID])


@pytest.mark.parametrize("name", ["instructions", "system"])
def test_litellm_with_instructions_among_its_parameters(tmp_path: Path, name: str) -> None:
    row = {"call_type": "aresponses", "model_parameters": {name: "Answer."}, "messages": ASKED, "status": "success"}
    assert Read(lines(tmp_path / "a.jsonl", row)).of("messages") == [[["system", "Answer."], *SAID]]


def test_bedrock_with_the_counts_of_llama(tmp_path: Path) -> None:
    row = {"schemaType": "ModelInvocationLog", "operation": "InvokeModel", "modelId": "meta.llama3"}
    row |= {"timestamp": "2026-01-02T03:04:05Z", "input": {"inputBodyJson": {"prompt": "Is the atlas in?"}}}
    answer = {"generation": "Yes.", "prompt_token_count": 4, "generation_token_count": 1}
    read = Read(lines(tmp_path / "a.jsonl", {**row, "output": {"outputBodyJson": answer}}))
    assert (read.of("prompt_tokens"), read.of("output_tokens")) == ([4], [1])


def test_a_note_of_claude_code_without_a_session(tmp_path: Path) -> None:
    note = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": {}}}
    common = {"sessionId": "s", "timestamp": "2026-01-02T03:04:05Z"}
    usage = {"input_tokens": 5, "output_tokens": 1}
    answer = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Yes."}], "usage": usage}
    said = {"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": "Is the atlas in?"}}
    read = Read(
        lines(
            tmp_path / "s.jsonl",
            {**common, **said},
            note,
            {**common, "type": "assistant", "uuid": "2", "parentUuid": "1", "message": answer},
        )
    )
    assert read.of("messages") == [SAID]


def test_what_cline_no_longer_sent_is_not_in_its_prompts(tmp_path: Path) -> None:
    said = [{"role": ("user", "assistant")[at % 2], "content": letter} for at, letter in enumerate("abcdef")]
    history = tmp_path / "api_conversation_history.json"
    history.write_text(json.dumps(said))

    def asked(**more: Any) -> dict[str, Any]:
        return {"type": "say", "say": "api_req_started", "text": json.dumps({"tokensIn": 5, "tokensOut": 2}), **more}

    def shown(last: list[Any]) -> list[list[str]]:
        (tmp_path / "ui_messages.json").write_text(json.dumps([asked(), asked(), *last]))
        return [[text for _, text in messages] for messages in Read(history).of("messages")]

    after = {"type": "say", "say": "text", "text": "", "conversationHistoryDeletedRange": [2, 3]}
    assert shown([asked(conversationHistoryDeletedRange=[2, 3])]) == [["a"], ["a", "b", "c"], ["a", "b", "e"]]
    assert shown([asked(), after])[2] == ["a", "b", "e"]  # cut while the request was made
    assert shown([asked(), {**after, "conversationHistoryDeletedRange": [90, 99]}])[2] == list("abcde")
    assert shown([asked(), {**after, "conversationHistoryDeletedRange": ["x"]}])[2] == list("abcde")


def test_an_archive_saved_without_what_was_posted(tmp_path: Path) -> None:
    request = {"method": "POST", "url": "https://api.openai.com/v1/chat/completions", "headers": []}
    entry = {"startedDateTime": "2026-01-02T03:04:05Z", "request": request, "response": {"status": 200}}
    path = tmp_path / "a.har"
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": [entry]}}))
    error = refusal(path)
    assert "1 request without its body" in error.message
    assert "contents" in (error.hint or "")


def test_a_body_that_was_written_as_json_more_than_once(tmp_path: Path) -> None:
    for times in [1, 2, 3]:
        body: Any = {"messages": ASKED}
        for _ in range(times):
            body = json.dumps(body)
        row = {"request": body}
        if times == 3:
            assert "no prompt found" in refusal(lines(tmp_path / "a.jsonl", row)).message
        else:
            assert Read(lines(tmp_path / "a.jsonl", row)).of("messages") == [SAID]


def test_a_content_of_gemini_without_parts_says_nothing(tmp_path: Path) -> None:
    said = [{"role": "user", "parts": [{"text": "Is the atlas in?"}]}, {"role": "model"}]
    read = Read(lines(tmp_path / "a.jsonl", {"contents": said}))
    assert (read.of("messages"), dict(read.source.prompts.parts)) == ([SAID], {})
    assert "empty" in refusal(lines(tmp_path / "b.jsonl", {"contents": [{"role": "user"}]})).message


def test_what_is_no_status_of_http_fails_no_request(tmp_path: Path) -> None:
    for status in [-(1 << 63), 1 << 40, -1, 5_000, True, "late"]:
        path = lines(tmp_path / "a.jsonl", {"request": {"model": "m", "messages": ASKED}, "status": status})
        assert [row["call"].status for row in Read(path).rows] == [None]
