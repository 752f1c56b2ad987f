"""Pipes, closed and full streams, standard input, and limits of memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.cli.commands.profile import ProfileCommand
from tests.cli.command_line.conftest import shell


def test_a_closed_pipe_is_silent_and_keeps_the_exit_code(folder: Path, bytes_json: str) -> None:
    line = f"kvtool profile w.yaml --dry-run -t {bytes_json}"
    done = shell(folder, f"{line} -o text -o r.md | head -1; echo codes ${{PIPESTATUS[0]}}")
    assert done.stderr == "written: r.md (markdown)\n"
    assert (folder / "r.md").read_text()
    first, codes = done.stdout.splitlines()
    assert first.startswith("kvtool ")
    assert codes == "codes 1"
    done = shell(folder, f"{line} -g chat --json --per-request | true; echo codes ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("codes 0\n", "")
    done = shell(folder, "kvtool --help | true; echo codes ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("codes 0\n", "")


def test_closed_and_full_streams(folder: Path, bytes_json: str) -> None:
    line = f"kvtool profile w.yaml -g chat --dry-run -t {bytes_json}"
    done = shell(folder, f"{line} >&-")
    assert (done.returncode, done.stderr) == (2, "error: standard output is closed\n")
    done = shell(folder, f"{line} 2>&- <&-")
    assert done.returncode == 0
    assert done.stdout.startswith("kvtool ")
    assert shell(folder, f"{line} >&- 2>&- <&-").returncode == 2
    done = shell(folder, "kvtool profile - --dry-run <&-")
    assert done.returncode == 2
    assert done.stderr.startswith("error: -: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["--help", "profile w.yaml --dry-run -t TOKENIZER --json"])
def test_a_full_disk(command: str, folder: Path, bytes_json: str) -> None:
    done = shell(folder, f"kvtool {command.replace('TOKENIZER', bytes_json)} >/dev/full")
    assert done.returncode == 2
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are asked of Linux")
@pytest.mark.parametrize("kilobytes", [60_000, 120_000])
def test_too_little_memory_to_import_anything(kilobytes: int, folder: Path) -> None:
    """With the second of these numpy's import never comes back."""
    done = shell(folder, f"ulimit -v {kilobytes}; kvtool profile w.yaml --dry-run")
    told = f"error: the memory limit (ulimit -v) is {kilobytes >> 10} MiB; kvtool needs 384 MiB\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.usefixtures("folder")
def test_memory_that_ends_is_no_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def ends(_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(ProfileCommand, "run", ends)
    assert run(["profile", "w.yaml"]) == 2
    assert capsys.readouterr().err == "error: there is not enough memory\n"
