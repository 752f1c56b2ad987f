"""Inputs that `kvtool optimize` reads and never edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.files import write
from tests.profiler.optimize.conftest import RULES, Optimize, chat_log, contents, document, refused


def test_what_the_command_line_may_not_say(optimize: Optimize, desk: str) -> None:
    Path("folder").mkdir()
    refused(optimize, "unknown proof tier `P9`", desk, "--allow", "P9")
    refused(optimize, "--undo names the patch for --write", desk, "--undo", "u.patch")
    refused(optimize, "--undo folder is a directory", desk, "--write", "--undo", "folder")
    refused(optimize, "--undo w.yaml is an input", desk, "--write", "--undo", desk)
    refused(
        optimize, "--undo prompts/desk.md exists already", desk, "--allow", "P2", "--write", "--undo", "prompts/desk.md"
    )
    refused(optimize, "there is no folder `nowhere`", desk, "--write", "--undo", "nowhere/u.patch")
    refused(optimize, "--undo needs a file", desk, "--write", "--undo", "-")
    refused(optimize, "--breakpoints is a number from 1 to 4", desk, "--breakpoints", "5")
    refused(optimize, "-o writes a log with the fixes made", desk, "-o", "x.yaml")
    refused(optimize, "no such file", "missing.yaml")


def test_logs_are_told_and_not_edited(optimize: Optimize) -> None:
    records = [
        {"messages": [{"role": "system", "content": f"Now: 2026-01-01T10:{n:02}:00Z\n" + RULES * 6}]} for n in range(12)
    ]
    write("a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    before = contents()
    code, out, _ = optimize("a.jsonl", "--allow", "P2", "--width", "200")
    assert code == 0
    assert "Nothing was written. A log is a record: change the code that sends these requests." in out
    assert contents() == before
    refused(optimize, "logs are records of sent requests", "a.jsonl", "--write")


def test_prompts_are_told_and_not_edited(optimize: Optimize) -> None:
    names = [write(f"p{n}.txt", f"Now: 2026-01-01T10:{n:02}:00Z\n" + RULES * 6) for n in range(6)]
    found = document(optimize, *names, "--allow", "P2")
    assert found["steps"]
    assert {step["reason"] for step in found["steps"]} == {
        "kvtool edits only prompts of a workload file: name them in one"
    }
    refused(optimize, "--write edits a workload file", *names, "--write")


def test_standard_input_is_told_and_never_written(
    optimize: Optimize, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chat_log("a.jsonl")
    for arguments, code in (((), 0), (("--write",), 2), (("-o", "b.jsonl"), 2)):
        with Path("a.jsonl").open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert optimize("-", *arguments)[0] == code
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_tiers_may_be_named_one_by_one(optimize: Optimize, desk: str) -> None:
    one = document(optimize, desk, "--allow", "P2", "--allow", "P3")
    assert one["tiers"] == document(optimize, desk, "--allow", "P3,P2")["tiers"] == ["P0", "P1", "P2", "P3"]
