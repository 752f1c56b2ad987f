"""Misses of prompts with images, files and documents: equal placeholders are equal prompts, and text in a document is text."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.text.message import document_texts
from kvtool.text.templates.served_messages import part_text

Body = dict[str, Any]
Lost = Callable[[int, Body], str]
"""Changes request i, and says what it cannot read: `system`, `messages` or nothing."""

_MARK = {"cache_control": {"type": "ephemeral"}}
_WORDS = (
    "claim", "policy", "order", "refund", "ship", "account", "agent", "reply", "polite", "always", "invoice", "value",
)  # fmt: skip
_CHANGED_AT = 5
_SYSTEM, _TURN = 3600, 300
"""Tokens of the system prompt and of a turn."""


def prose(words: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def picture(number: int) -> Body:
    data = f"iVBORw0KGgo{number}"
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def made_log(path: Path, change: Lost, *, requests: int = 9, turn: Callable[[int], list[Any]] | None = None) -> str:
    """Write a conversation without a session id that reads all of its last request but what `change` says."""
    turn = turn or (lambda at: [{"type": "text", "text": prose(200, at)}])
    messages: list[Body] = []
    rows, stored = [], 0
    for at in range(requests):
        messages.append({"role": "user", "content": turn(at)})
        body: Body = {
            "model": "claude-sonnet-4-5-20250929",
            "max_tokens": 100,
            "system": [{"type": "text", "text": prose(3000, -1), **_MARK}],
            "messages": copy.deepcopy(messages),
        }
        lost = change(at, body)
        body["messages"][-1]["content"][-1].update(_MARK)
        prompt = _SYSTEM + _TURN * (at + 1)
        read = {"system": 0, "messages": _SYSTEM}.get(lost, stored) if at else 0
        usage = {
            "input_tokens": 0,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": prompt - read,
            "output_tokens": 9,
        }
        answer = {"type": "message", "role": "assistant", "model": body["model"], "content": [], "usage": usage}
        rows.append({"timestamp": f"2026-11-03T09:{at:02d}:00Z", "request": body, "response": answer})
        stored = prompt
        messages.append({"role": "assistant", "content": [{"type": "text", "text": prose(20, 100 + at)}]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def causes(capsys: pytest.CaptureFixture[str], path: str) -> dict[str, int]:
    assert run(["profile", path, "--no-advice", "--json"]) == 0, capsys.readouterr().err
    document = json.loads(capsys.readouterr().out)
    return {cause: total["tokens"] for cause, total in document["misses"]["causes"].items()}


def with_pictures(at: int) -> list[Any]:
    return [picture(at), {"type": "text", "text": f"{prose(30, at)}?"}]


def test_a_conversation_of_pictures_that_reads_all_has_no_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert causes(capsys, made_log(tmp_path / "a.jsonl", lambda *_: "", turn=with_pictures)) == {}


def test_the_first_picture_of_a_conversation_is_a_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def change(at: int, body: Body) -> str:
        if at >= _CHANGED_AT:
            body["messages"][2 * _CHANGED_AT]["content"].insert(0, picture(1))
        return "messages" if at == _CHANGED_AT else ""

    assert causes(capsys, made_log(tmp_path / "a.jsonl", change)) == {"setting_changed": _TURN * _CHANGED_AT}


def test_one_picture_more_is_no_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who sends a picture each turn and reads the system prompt alone lost the rest to something else."""
    path = made_log(tmp_path / "a.jsonl", lambda at, _: "messages" * (at == _CHANGED_AT), turn=with_pictures)
    found = causes(capsys, path)
    assert set(found) == {"provider"}
    assert found["provider"] == _TURN * _CHANGED_AT


def test_another_picture_in_the_history_is_a_change_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def change(at: int, body: Body) -> str:
        if at >= _CHANGED_AT:
            body["messages"][0]["content"][0] = picture(77)
        return "messages" if at == _CHANGED_AT else ""

    assert set(causes(capsys, made_log(tmp_path / "a.jsonl", change, turn=with_pictures))) == {"history_edited"}


def test_the_text_of_a_document_is_text_and_its_change_has_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def turn(at: int) -> list[Any]:
        source = {"type": "text", "media_type": "text/plain", "data": f"{prose(110, at)}\n{prose(110, 50 + at)}"}
        return [{"type": "document", "title": f"d{at}", "source": source}, {"type": "text", "text": "What is it?"}]

    def change(at: int, body: Body) -> str:
        if at >= _CHANGED_AT:
            body["messages"][0]["content"][0]["source"]["data"] += f"\nas of {at}"
        return "messages" if at >= _CHANGED_AT else ""

    path = made_log(tmp_path / "a.jsonl", change, turn=turn)
    assert run(["profile", path, "--no-advice", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["uncounted_requests"] == 0
    places = {event["place"].partition(", ")[2] for event in document["misses"]["events"]}
    assert places == {"messages[0] (user), line 3"}


def test_citations_that_are_switched_on_are_a_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def turn(at: int) -> list[Any]:
        source = {"type": "text", "media_type": "text/plain", "data": prose(200, at)}
        return [{"type": "document", "source": source}, {"type": "text", "text": "What is it?"}]

    def change(at: int, body: Body) -> str:
        if at >= _CHANGED_AT:
            body["messages"][2 * _CHANGED_AT]["content"][0]["citations"] = {"enabled": True}
        return "system" if at == _CHANGED_AT else ""

    found = causes(capsys, made_log(tmp_path / "a.jsonl", change, turn=turn))
    assert found == {"setting_changed": _SYSTEM + _TURN * _CHANGED_AT}


def test_documents_of_text_alone_are_text() -> None:
    for part, texts in [
        ({"type": "document", "source": {"type": "text", "data": "a"}}, ["a"]),
        ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "b"}]}}, ["b"]),
        ({"type": "search_result", "source": "https://e.x", "content": [{"text": "c"}, {"text": "d"}]}, ["c", "d"]),
        ({"type": "document", "source": {"type": "base64", "data": "aaaa"}}, None),
        ({"type": "document", "source": {"type": "content", "content": [picture(1)]}}, None),
        ({"type": "search_result", "content": []}, None),
        ({"type": "image", "source": {"type": "text", "data": "a"}}, None),
    ]:
        assert document_texts(part) == texts
        written = str(part_text(part)).split("\n")
        assert written[1:] == (texts or [])
        assert part_text({**part, "citations": {"enabled": True}}) != part_text(part)
