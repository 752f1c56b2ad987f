"""Interruptions, full disks and protected files: nothing is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvtool.fixes.edits import apply
from kvtool.profiler.run.workload_runs import WorkloadRuns
from kvtool.text.terminal.console import cell_width
from tests.files import write
from tests.profiler.optimize.conftest import RULES, TOOLS, WORKLOAD, Optimize, contents, refused


def break_runs(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Ctrl-C in the middle of the pass with this number."""
    account = WorkloadRuns.run
    passes = 0

    def interrupted(self: WorkloadRuns, *arguments: Any, **options: Any) -> Any:
        nonlocal passes
        result = account(self, *arguments, **options)
        passes += 1
        result.partial = passes == number
        return result

    monkeypatch.setattr(WorkloadRuns, "run", interrupted)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_an_interruption_writes_nothing(
    optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = contents()
    break_runs(monkeypatch, number)
    code, out, err = optimize(desk, "--allow", "P2", "--write")
    assert (code, out) == (130, "")
    assert "interrupted; no file was changed" in err
    assert contents() == before


def test_a_file_that_changes_meanwhile(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files = apply.write_files

    def late(files: Any) -> None:
        Path("prompts/desk.md").write_text("written by somebody else")
        write_files(files)

    monkeypatch.setattr("kvtool.profiler.optimize.write_edits.write_files", late)
    code, _, err = optimize(desk, "--allow", "P2", "--write")
    assert code == 2
    assert "`prompts/desk.md` has changed since it was read" in err
    assert "no file was changed; run it again" in err
    assert Path("prompts/desk.md").read_text() == "written by somebody else"
    assert sorted(contents()) == ["prompts/desk.md", "w.yaml"]


def test_a_target_that_is_write_protected(optimize: Optimize, desk: str) -> None:
    Path("prompts/desk.md").chmod(0o444)
    refused(optimize, "it is write-protected", desk, "--allow", "P2", "--write")


def test_a_folder_that_cannot_be_written(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def no_entry(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & os.O_EXCL and str(path).startswith(".desk.md."):
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", no_entry)
    refused(optimize, "cannot write prompts/desk.md: Permission denied", desk, "--allow", "P2", "--write")


def test_a_full_disk(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kvtool.fixes.edits.apply.os.fsync", full)
    refused(optimize, "cannot write prompts/desk.md: No space left on device", desk, "--allow", "P2", "--write")


def test_no_line_is_wider_than_the_terminal(optimize: Optimize, desk: str) -> None:
    tools = [[{"name": name, "description": RULES.strip()} for name in order] for order in ("abc", "cab", "bca")]
    write("tools.txt", "\n".join(json.dumps(each) for each in tools) + "\n")
    text = WORKLOAD.replace("vars:\n", "vars:\n  tools: {file: tools.txt, pick: random}\n") + TOOLS
    write("w.yaml", text)
    for width in (60, 80, 120):
        out = optimize("w.yaml", "--width", str(width), "--unsafe-fixes", "--breakpoints", "4")[1]
        lines = [line for line in out.splitlines() if "tokenizer.json" not in line]
        assert max(map(cell_width, lines)) <= width, width
