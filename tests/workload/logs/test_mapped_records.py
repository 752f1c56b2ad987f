"""`--map`: where records of a shape that nobody knows have what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.errors import KvtoolError
from tests.workload.logs.log_lines import SYSTEM, read, write

MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Is it open?"}]
ASKED = "messages=q.0.req.talk,session=meta.chat,time=at,usage=a.tokens,model=q.0.req.llm,output=a.text,tenant=meta.who"


def record(talk: object) -> dict[str, object]:
    return {
        "q": {"0": {"req": {"talk": talk, "llm": "m-1"}}},
        "a": json.dumps({"tokens": {"input_tokens": 90, "output_tokens": 4}, "text": "Yes."}),
        "meta": {"chat": "c-1", "who": "fenwick"},
        "at": "2026-02-02T02:40:00Z",
    }


def test_paths_lead_to_everything_through_json_in_texts(tmp_path: Path) -> None:
    for talk in [MESSAGES, json.dumps(MESSAGES), {"messages": MESSAGES}]:
        rows, source = read(write(tmp_path / "log.jsonl", [record(talk)]), format=ASKED)
        assert list(source.formats.values()) == ["map"]
        assert rows[0]["messages"] == [[each["role"], each["content"]] for each in MESSAGES]
        told = ("session", "turn", "tenant", "model", "prompt_tokens", "output_tokens")
        assert [rows[0][name] for name in told] == ["c-1", 0, "fenwick", "m-1", 90, 4]


def test_brackets_go_through_all_elements(tmp_path: Path) -> None:
    rows = [{"steps": [{"said": {"m": each}} for each in MESSAGES]}]
    found, _ = read(write(tmp_path / "log.jsonl", rows), format="messages=steps[].said.m")
    assert [role for role, _ in found[0]["messages"]] == ["system", "user"]


def test_a_map_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match=r"not a map record: that format has messages at messages=x\.y"):
        read(write(tmp_path / "log.jsonl", [record(MESSAGES)]), format="messages=x.y")


def test_what_is_no_map_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked, says in [
        ("session=a", "--map names no prompt"),
        ("messages", "`messages` is not NAME=PATH"),
        ("messages=a,messages=b", "`messages` appears twice"),
        ("talk=a", "unknown name `talk`"),
        ("messages=a..b", "is not a path"),
    ]:
        path = write(tmp_path / "log.jsonl", [record(MESSAGES)])
        assert run(["logs", path, "--map", asked]) == 2
        assert says in capsys.readouterr().err


def test_profile_takes_it_too(tmp_path: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "log.jsonl", [record(MESSAGES), record(MESSAGES)])
    assert run(["profile", path, "--map", ASKED, "-t", bytes_json, "--json", "--measure-budget", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["requests"] == 2
