"""How long the answer of a log is: sampled ids go before the count of a server, that before its text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.render import Renderer

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def answer(tmp_path: Path, renderer: Renderer, response: dict[str, Any]) -> list[int]:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"request": ASKED, "response": response}))
    (conversation,) = LogSource([str(path)]).conversations()
    turn = conversation.next_turn(None)
    assert turn is not None
    return list(JobMaker(renderer, seed=0).make(turn).request.output_ids or [])


def test_a_completion_has_its_sampled_ids(tmp_path: Path, byte_renderer: Renderer) -> None:
    path = tmp_path / "log.jsonl"
    response = {"choices": [{"text": "::::", "finish_reason": "length", "token_ids": [58, 5858, 58]}]}
    path.write_text(json.dumps({"request": {"prompt": "hi"}, "response": response}))
    (conversation,) = LogSource([str(path)]).conversations()
    turn = conversation.next_turn(None)
    assert turn is not None
    assert JobMaker(byte_renderer, seed=0).make(turn).request.output_ids == [58, 5858, 58]


def choice(finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": "abc"}, "finish_reason": finish, **more}]}


@pytest.fixture
def abc(byte_tokenizer: Tokenizer) -> list[int]:
    found: list[int] = byte_tokenizer.encode_ids("abc").tolist()
    assert len(found) == 3
    return found


@pytest.fixture
def ended(byte_tokenizer: Tokenizer, byte_renderer: Renderer) -> list[int]:
    """What ends a chat answer of this tokenizer."""
    return [] if byte_tokenizer.eos_id is None else [byte_tokenizer.eos_id]


def test_sampled_ids_go_first(tmp_path: Path, byte_renderer: Renderer) -> None:
    response = {**choice(token_ids=[5, 6, 7, 8, 9]), "usage": {"completion_tokens": 2}}
    assert answer(tmp_path, byte_renderer, response) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("ids", [[], [1, -1], ["a"], [1 << 31], {}, [True]])
def test_ids_that_are_none_are_not_taken(
    ids: object, tmp_path: Path, byte_renderer: Renderer, abc: list[int], ended: list[int]
) -> None:
    assert answer(tmp_path, byte_renderer, choice(token_ids=ids)) == [*abc, *ended]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_the_count_of_the_server_cuts_and_fills(
    count: int, tmp_path: Path, byte_renderer: Renderer, abc: list[int], ended: list[int]
) -> None:
    found = answer(tmp_path, byte_renderer, {**choice(), "usage": {"prompt_tokens": 9, "completion_tokens": count}})
    assert len(found) == count
    start = [*abc, *ended][:count]
    assert found[: len(start)] == start


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
def test_an_answer_that_ended_has_its_last_token(
    finish: str | None, tmp_path: Path, byte_renderer: Renderer, abc: list[int], ended: list[int]
) -> None:
    assert answer(tmp_path, byte_renderer, choice(finish)) == [*abc, *ended]


@pytest.mark.parametrize(
    "response",
    [
        choice("length"),
        {"content": [{"type": "text", "text": "abc"}], "stop_reason": "max_tokens"},
        {"status": "incomplete", "output": [{"type": "message", "content": [{"type": "output_text", "text": "abc"}]}]},
    ],
)
def test_an_answer_that_was_cut_off_has_none(
    response: dict[str, Any], tmp_path: Path, byte_renderer: Renderer, abc: list[int]
) -> None:
    assert answer(tmp_path, byte_renderer, response) == abc


def test_an_answer_that_no_model_writes_takes_no_room(byte_renderer: Renderer, tmp_path: Path) -> None:
    response = {**choice(), "usage": {"prompt_tokens": 2, "completion_tokens": (1 << 31) - 1}}
    assert len(answer(tmp_path, byte_renderer, response)) == 1 << 20


def unread_notes(tmp_path: Path, *records: dict[str, Any]) -> list[str]:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    source = LogSource([str(path)])
    for conversation in source.conversations():
        conversation.next_turn(None)
    return [note for note in source.outcome.notes if note.startswith("unread")]


def test_a_key_that_looks_like_the_answer_is_named(tmp_path: Path) -> None:
    for record in [
        {**ASKED, "model_reply": "abc"},
        {"request": ASKED, "modelReply": choice()},
        {"prompt": "hi", "generated_text": "abc"},
    ]:
        key = list(record)[-1]
        assert unread_notes(tmp_path, record, record) == [
            f"unread, but probably the answer: `{key}` of 2 requests; read it with --map output=KEY"
        ]


def test_a_key_that_may_be_data_is_not_quoted(tmp_path: Path) -> None:
    (note,) = unread_notes(
        tmp_path, {**ASKED, "mina@quillmark.example": choice()}, {**ASKED, "zz": json.dumps(choice())}
    )
    assert "an unknown key of 2 requests" in note
    assert "mina" not in note


def test_a_request_with_an_answer_or_without_any_left_nothing_unread(tmp_path: Path) -> None:
    for record in [
        {**ASKED, "response": choice(), "reply": "abc"},
        {**ASKED, "response_format": {"type": "text"}, "tool_results": ["x"]},
        {**ASKED, "output_tokens": 3, "reply": "abc"},
        {**ASKED, "reply": ""},
    ]:
        assert unread_notes(tmp_path, record) == []
