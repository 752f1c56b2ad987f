"""SIGTERM and SIGHUP: nothing is left half written; the exit code is 128 and the signal's number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.text.files.part_file import PartFile
from kvtool.text.terminal.ended import EndedError, end_on_signals
from tests.files import write

WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
groups:
  - name: support
    requests: 24
    messages:
      - {role: system, file: system.md}
      - {role: user, text: "Where is my parcel?"}
"""
PROMPT = "Now: {{ now }}.\nYou are the agent of a shop. Be short, be kind, be right, and be it every time.\n"
LOG = '{"prompt": "one of them, long enough for a block"}\n{"prompt": "another one, long enough for a block"}\n' * 12
PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from kvtool.text.files.part_file import PartFile
from kvtool.__main__ import main
def slowly(self):
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)
PartFile.put = slowly
sys.argv[0] = "kvtool"
main()
"""


def ended(folder: Path, arguments: list[str], number: int) -> int:
    """End a process that is about to put a file in its place; return its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == "ready\n", process.communicate()
        process.send_signal(number)
        process.communicate(timeout=50)
    finally:
        process.kill()
    return process.returncode


@pytest.fixture
def signals() -> Iterator[None]:
    """SIGTERM ends this process as it ends the command line; afterwards it does what it did."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    end_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        ("profile w.yaml --dry-run --no-advice --events e.jsonl --metrics m.prom", 0),
        ("profile w.yaml --dry-run --no-advice -o r.json -o r.html", 0),
        ("check w.yaml -o r.json", 0),
        ("check w.yaml --update-baseline --baseline b.json", 0),
        ("lint w.yaml -o r.sarif", 0),
        ("lint w.yaml --fix --unsafe-fixes --undo u.patch", 0),
        ("lint w.yaml --fix --unsafe-fixes --undo u.patch", 1),
        ("optimize w.yaml --write --unsafe-fixes", 1),
        ("optimize log.jsonl --capacity 4 -o ordered.jsonl", 0),
        ("init prompts", 0),
    ],
)
def test_nothing_is_left_half_written(
    arguments: str, after: int, tmp_path: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, signals: None
) -> None:
    """The signal comes when `after` files are in their places and the next one is about to be."""
    monkeypatch.chdir(tmp_path)
    put, left = PartFile.put, [None] * after

    def ending(file: PartFile) -> None:
        if not left:
            os.kill(os.getpid(), signal.SIGTERM)
        left.pop()
        put(file)

    monkeypatch.setattr(PartFile, "put", ending)
    write(str(tmp_path / "w.yaml"), WORKLOAD)
    write(str(tmp_path / "system.md"), PROMPT)
    write(str(tmp_path / "log.jsonl"), LOG)
    write(str(tmp_path / "prompts" / "system.j2"), PROMPT)
    before = everything(tmp_path)
    with pytest.raises(EndedError) as stop:
        run([*arguments.split(), "-t", bytes_json])
    assert stop.value.code == 143
    assert everything(tmp_path) == before


def test_a_terminal_that_is_closed(tmp_path: Path, bytes_json: str) -> None:
    write(str(tmp_path / "w.yaml"), WORKLOAD)
    write(str(tmp_path / "system.md"), PROMPT)
    before = everything(tmp_path)
    assert ended(tmp_path, ["check", "w.yaml", "-o", "r.json", "-t", bytes_json], signal.SIGHUP) == 129
    assert everything(tmp_path) == before


def test_a_signal_that_does_something_else_already_goes_on_doing_it(signals: None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    end_on_signals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
