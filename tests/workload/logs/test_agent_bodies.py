"""Bodies that coding agents send: whose they are, of which model, with which tools, and which of them are sent again."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.records.endpoint_models import model_in_address
from kvtool.workload.logs.records.retries import is_retry
from kvtool.workload.turn import Turn
from tests.conftest import some
from tests.files import write

DEVICE = "0123456789abcdef" * 4


def turns(tmp_path: Path, *records: dict[str, Any]) -> tuple[list[Turn], LogSource]:
    source = LogSource([str(write(tmp_path / "log.jsonl", "".join(json.dumps(each) + "\n" for each in records)))])
    found = []
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            found.append(turn)
    return found, source


def messages_body(**more: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-6", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **more}


def test_the_user_id_of_an_agent_names_session_and_user(tmp_path: Path) -> None:
    for user_id in [
        json.dumps({"device_id": DEVICE, "account_uuid": "", "session_id": "S"}),
        json.dumps({"session_id": "S", "device_id": DEVICE}),
        f"user_{DEVICE}_account__session_S",
        f"user_{DEVICE}_account_{uuid.UUID(int=7)}_session_S",
    ]:
        other = user_id.replace('"S"', '"T"').replace("session_S", "session_T")
        found, _ = turns(tmp_path, *(messages_body(metadata={"user_id": each}) for each in (user_id, other)))
        assert [turn.session for turn in found] == ["S", "T"]
        assert found[0].call.tenant is not None
        assert found[0].call.tenant == found[1].call.tenant
        assert DEVICE not in str(found[0].call)


def test_a_plain_user_id_is_a_tenant_as_it_is(tmp_path: Path) -> None:
    [turn], _ = turns(tmp_path, messages_body(metadata={"user_id": "acme"}))
    assert (turn.session, turn.call.tenant) == (None, "acme")


def test_a_header_names_the_session(tmp_path: Path) -> None:
    for name in ["X-Claude-Code-Session-Id", "session-id", "session_id", "x-session-id"]:
        [turn], _ = turns(tmp_path, {"headers": {name: "s9"}, "body": messages_body()})
        assert turn.session == "s9"


@pytest.mark.parametrize(("key", "session"), [(str(uuid.UUID(int=99)), str(uuid.UUID(int=99))), ("support-bot", None)])
def test_a_cache_key_is_a_session_only_where_it_was_drawn_for_one(
    key: str, session: str | None, tmp_path: Path
) -> None:
    [turn], _ = turns(
        tmp_path, {"model": "gpt-5.5", "input": "Hi", "instructions": "Be brief.", "prompt_cache_key": key}
    )
    assert turn.session == session
    assert turn.call.scope.key == key


def test_an_address_names_the_model() -> None:
    for address, model in [
        ("https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro"),
        ("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", "gemini-2.5-flash"),
        ("/v1beta/models/gemini-2.5-flash%3AgenerateContent", "gemini-2.5-flash"),
        ("/v1/publishers/anthropic/models/claude-opus-4@20250514:rawPredict", "claude-opus-4@20250514"),
        ("https://b.amazonaws.com/model/anthropic.claude-3-haiku-v1%3A0/invoke", "anthropic.claude-3-haiku-v1:0"),
        (
            "/model/arn%3Aaws%3Abedrock%3Aus%3A1%3Aprofile%2Fus.anthropic.claude-4/converse-stream",
            "us.anthropic.claude-4",
        ),
        ("https://x.openai.azure.com/openai/deployments/gpt-4o-prod/chat/completions?api-version=1", "gpt-4o-prod"),
        ("/v1/chat/completions", None),
        ("/v1/models", None),
        ("chat", None),
        (7, None),
    ]:
        assert model_in_address(address) == model


def test_the_model_of_the_body_goes_before_that_of_the_address(tmp_path: Path) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent"
    found, _ = turns(tmp_path, {"url": url, "body": body}, {"url": url, "body": {**body, "model": "gemini-3"}})
    assert [turn.call.model for turn in found] == ["gemini-2.5-pro", "gemini-3"]


def test_tools_of_a_namespace_are_prompt_text(tmp_path: Path) -> None:
    inner = {"type": "function", "name": "find", "description": "Finds zebras.", "parameters": {"type": "object"}}
    space = {"type": "namespace", "name": "mcp__notes", "description": "Notes.", "tools": [inner]}
    custom = {
        "type": "custom",
        "name": "patch",
        "description": "P.",
        "format": {"type": "grammar", "definition": "start: X"},
    }
    [turn], _ = turns(
        tmp_path, {"model": "gpt-5.5", "input": "Hi", "instructions": "Be brief.", "tools": [space, custom]}
    )
    assert "Finds zebras." in str(turn.tools)
    assert "start: X" in str(turn.tools)


def test_the_system_prompt_of_a_saved_session_is_read(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    found, _ = turns(tmp_path, {"version": 1, "system_prompt": "Be brief.", "messages": said})
    assert found[0].messages is not None
    assert found[0].messages[0] == {"role": "system", "content": "Be brief."}


def test_blocks_of_the_system_prompt_are_named_by_their_number(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": each} for each in ("One.", "Two.")]
    [turn], _ = turns(tmp_path, messages_body(system=blocks))
    assert turn.messages is not None
    parts = [part["text"].at(0)[0].part for part in turn.messages[0]["content"]]
    assert parts == ["system[0]", "system[1]"]


def test_headers_say_that_a_request_is_a_retry() -> None:
    for headers, retry in [
        ({"X-Stainless-Retry-Count": "0"}, False),
        ({"x-stainless-retry-count": 2}, True),
        ({"amz-sdk-request": "attempt=1; max=3"}, False),
        ({"amz-sdk-request": "attempt=2; max=3"}, True),
        ({"x-stainless-retry-count": "two"}, None),
        ({}, None),
        (None, None),
    ]:
        assert is_retry(headers) is retry


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_retries_are_left_out_and_counted(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    records: list[dict[str, Any]] = []
    sent = copies = 0
    for session in range(3):
        said: list[dict[str, Any]] = [{"role": "user", "content": f"Task {session}"}]
        for step in range(4):
            body = messages_body(messages=list(said))
            for attempt in range(rng.choice([1, 1, 3])):
                headers = {"x-stainless-retry-count": str(attempt), "session-id": f"s{session}"}
                records.append({"headers": headers, "body": body})
                copies += attempt > 0
            sent += 1
            said += [{"role": "assistant", "content": f"Answer {step}"}, {"role": "user", "content": f"More {step}"}]
    found, source = turns(tmp_path, *records)
    assert len(found) == sent
    assert sum(source.left_out.counts.values()) == copies


def test_a_question_that_is_asked_again_is_no_retry(tmp_path: Path) -> None:
    body = messages_body(session_id="s")
    found, _ = turns(tmp_path, body, body, {**body, "response": {"content": [{"type": "text", "text": "Ho"}]}}, body)
    assert len(found) == 4
