"""`[logs]` in the configuration: where records of a shape that nobody knows have what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.config.file_model import LogFields
from kvtool.workload.logs.records.mapped_records import NAMES
from tests.files import write

RECORD = {
    "payload": {"req": {"msgs": [{"role": "user", "content": "hello"}]}},
    "meta": {"chat": "c1"},
    "ts": 1761555600,
}
CONFIG = '[logs]\nmessages = "payload.req.msgs"\nsession = "meta.chat"\ntime = "ts"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("log.jsonl", "\n".join(json.dumps(RECORD) for _ in range(2)))
    return tmp_path


def test_the_table_has_the_names_of_the_flag() -> None:
    assert set(LogFields.model_fields) == set(NAMES)


def test_it_is_read_by_logs_and_profile(bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "log.jsonl"]) == 2
    write("kvtool.toml", CONFIG)
    capsys.readouterr()
    assert run(["logs", "log.jsonl", "--json", "--requests", "--show-text", "full"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["session"], row["time"]) for row in rows] == [("c1", 1761555600)] * 2
    assert run(["profile", "log.jsonl", "-t", bytes_json, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["requests"] == 2
    assert run(["logs", "log.jsonl", "--no-config"]) == 2


def test_flags_go_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    write("kvtool.toml", CONFIG)
    write("chat.jsonl", '{"messages": [{"role": "user", "content": "hi"}]}')
    assert run(["logs", "chat.jsonl"]) == 2
    assert "--format" in capsys.readouterr().err
    assert run(["logs", "chat.jsonl", "--format", "chat"]) == 0
    assert run(["logs", "log.jsonl", "--map", "messages=payload.req.msgs,session=ts"]) == 0


def test_it_is_shown_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    write("kvtool.toml", CONFIG)
    assert run(["config", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["settings"]}
    assert (rows["logs.session"]["value"], rows["logs.session"]["line"]) == ("meta.chat", 3)
    assert "logs.tools" not in rows


def test_mistakes_have_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    for config, said in [
        ('[logs]\nsession = "a"\n', ("kvtool.toml:1", "names no prompt")),
        ('[logs]\nmessages = "a..b"\n', ("kvtool.toml:2:", "`a..b` is not a path")),
        ('[logs]\nmesages = "a"\n', ("kvtool.toml:2:", "mesages")),
        ("[logs]\nmessages = 7\n", ("kvtool.toml:2:", "text")),
    ]:
        write("kvtool.toml", config)
        assert run(["logs", "log.jsonl"]) == 2
        error = capsys.readouterr().err
        assert all(each in error for each in said), error
