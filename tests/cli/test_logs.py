"""`kvtool logs`: what is in a log, at any width, as one document, and with a row for each request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run
from tests.workload.logs.log_lines import chat, write


@pytest.fixture
def log(tmp_path: Path) -> str:
    failed = {**chat(3), "response": {"error": "no"}}
    return write(tmp_path / "log.jsonl", [chat(0), chat(1, session="loan-2", sent=900, cached=64), chat(2), failed])


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_lines_fit_the_width(log: str, width: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", log, "--width", width]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert all(len(line) <= int(width) or log in line for line in out.splitlines())
    for said in (
        "chat",
        "3 requests",
        "left out: failed 1",
        "gpt-5.5 3",
        "2026-02-02 02:40:00 UTC",
        "cached tokens 3 of 3",
    ):
        assert said in " ".join(out.split())


def test_of_times_without_a_date_only_their_distance_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path / "log.jsonl", [{"prompt": "Is it open?", "arrival_time": at} for at in (28_803_600, 28_805_391)]
    )
    assert run(["logs", path]) == 0
    assert "Times     no date  1,791.000 s from the first to the last" in capsys.readouterr().out


def test_the_document_has_no_text_of_prompts_unless_asked(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", log, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "rows" not in found
    assert (found["format"], found["requests"], found["sessions"]) == ("chat", 3, 2)
    assert found["left_out"] == {"failed": 1}
    assert run(["logs", log, "--json", "--requests"]) == 0
    out = capsys.readouterr().out
    assert "library" not in out
    assert "fenwick" not in out
    assert "messages" not in json.loads(out)["rows"][0]
    assert run(["logs", log, "--json", "--per-request", "--show-text", "full"]) == 0
    row = json.loads(capsys.readouterr().out)["rows"][1]
    assert row["messages"][1] == ["user", "Is book 1 on loan?"]
    assert {name: row[name] for name in ("session", "turn", "tenant", "model", "prompt_tokens", "cached_tokens")} == {
        "session": "loan-2",
        "turn": 0,
        "tenant": "fenwick",
        "model": "gpt-5.5",
        "prompt_tokens": 900,
        "cached_tokens": 64,
    }
    assert "cache_write_tokens" not in row


def test_what_is_refused_gives_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "log.jsonl", [{"nothing": "known"}])
    assert run(["logs", path, "--json", "--requests"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert f"error: {path}:1:1: no prompt found in this record" in err
    assert run(["logs"]) == 2


def test_what_is_left_out_is_noted_by_profile(log: str, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", log, "-t", bytes_json, "--json", "--measure-budget", "0"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "left out: 1 failed" in notes
    assert "Log format: OpenAI or Anthropic chat requests." in notes
