"""Sticky routing without sessions is refused, and said aloud where some requests have none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import kvtool
from kvtool.cli.app import run

TEXT = "The same words at the start of every prompt, so that there is something to hit. " * 8


def log(path: Path, sessions: Sequence[str | None], tenants: Sequence[str | None] | None = None) -> Path:
    tenants = tenants or [None] * len(sessions)
    rows = []
    for number, (session, tenant) in enumerate(zip(sessions, tenants, strict=True)):
        row: dict[str, object] = {"messages": [{"role": "user", "content": f"{TEXT}{number}"}]}
        row |= {} if session is None else {"session_id": session}
        rows.append(row if tenant is None else row | {"team": tenant})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_without_sessions_and_tenants_it_is_refused(
    tmp_path: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path / "log.jsonl", [None] * 6)
    arguments = ["profile", str(path), "-t", bytes_json, "--replicas", "2", "-q", "--no-config"]
    assert run([*arguments, "--routing", "sticky"]) == 2
    shown = capsys.readouterr()
    assert "sticky routing needs sessions or tenants, and no request has one" in shown.err
    assert "--map session=FIELD" in shown.err
    assert shown.out == ""
    assert run([*arguments, "--routing", "random"]) == 0


def test_some_without_are_counted(tmp_path: Path, bytes_json: str) -> None:
    some = log(tmp_path / "some.jsonl", ["a", None, "a", None, None])
    told = kvtool.profile([str(some)], tokenizer=bytes_json, replicas=2, routing="sticky").notes
    assert "3 of 5 requests have no session and no tenant: sticky routing sent them to replicas in turn" in told
    every = log(tmp_path / "all.jsonl", ["a", "b", "a"])
    report = kvtool.profile([str(every)], tokenizer=bytes_json, replicas=2, routing="sticky")
    assert not any("sticky" in note and "name no" in note for note in report.notes)


def test_a_tenant_stands_for_a_session(tmp_path: Path, bytes_json: str) -> None:
    path = log(tmp_path / "log.jsonl", [None] * 4, ["x", "y", "x", "y"])
    arguments = ["profile", str(path), "-t", bytes_json, "--replicas", "2", "-q", "--no-config", "--routing", "sticky"]
    assert run([*arguments, "--tenant", "team"]) == 0
    assert run(arguments) == 2
