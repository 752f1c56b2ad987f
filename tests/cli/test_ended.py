"""SIGTERM and SIGHUP: nothing is left half written; the exit code is 128 and the signal's number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvtool.text.terminal.ended import end_on_signals
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
put, left = PartFile.put, int(sys.argv.pop(1))
def slowly(self):
    global left
    if left:
        left -= 1
        return put(self)
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)
PartFile.put = slowly
sys.argv[0] = "kvtool"
main()
"""


def ended(folder: Path, arguments: list[str], after: int, number: int) -> tuple[int, str]:
    """End a process that has put `after` files in their places and is about to put the next; its exit code and what it said."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(after), *arguments],
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
        _, err = process.communicate(timeout=50)
    finally:
        process.kill()
    return process.returncode, err


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
def test_nothing_is_left_half_written(arguments: str, after: int, tmp_path: Path, bytes_json: str) -> None:
    write(str(tmp_path / "w.yaml"), WORKLOAD)
    write(str(tmp_path / "system.md"), PROMPT)
    write(str(tmp_path / "log.jsonl"), LOG)
    write(str(tmp_path / "prompts" / "system.j2"), PROMPT)
    before = everything(tmp_path)
    code, err = ended(tmp_path, [*arguments.split(), "-t", bytes_json], after, signal.SIGTERM)
    assert code == 143
    assert err.endswith("kvtool: ended from outside\n")
    assert everything(tmp_path) == before


def test_a_terminal_that_is_closed(tmp_path: Path, bytes_json: str) -> None:
    write(str(tmp_path / "w.yaml"), WORKLOAD)
    write(str(tmp_path / "system.md"), PROMPT)
    before = everything(tmp_path)
    code, _ = ended(tmp_path, ["check", "w.yaml", "-o", "r.json", "-t", bytes_json], 0, signal.SIGHUP)
    assert code == 129
    assert everything(tmp_path) == before


def test_a_signal_that_does_something_else_already_goes_on_doing_it() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
        end_on_signals()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
