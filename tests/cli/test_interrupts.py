"""Ctrl-C: whatever is going on, what was found so far is reported as partial, and the exit code is 130."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import SchemaSerializer, SchemaValidator, core_schema

from kvtool.cli.app import run
from kvtool.text.terminal.ended import EndedError
from kvtool.text.terminal.interrupts import uninterrupted
from tests.interrupting import interrupt_at

WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
groups:
  - name: support
    requests: 24
    messages:
      - {role: system, text: "Now: {{ now }}.\\nYou are the agent of a shop; be short, be kind, be right."}
      - {role: user, text: "Where is my parcel?"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `w.yaml`, which has a clock above its shared text."""
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_held_interrupt_comes_when_the_block_is_over(interruptible: None) -> None:
    done = []

    def hold() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("the rest")

    with pytest.raises(KeyboardInterrupt):
        hold()
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_interrupt_stays_ignored(interruptible: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), EndedError(143)])
@pytest.mark.parametrize("made", [SchemaValidator, SchemaSerializer])
def test_a_signal_while_pydantic_builds_a_model_is_no_bug(
    raised: BaseException, made: type[Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes an error of its own of what is raised then, whatever it is."""

    class Signalled:
        def __repr__(self) -> str:
            raise raised

    def build(*_: object, **__: object) -> None:
        made(core_schema.literal_schema([Signalled()]))

    monkeypatch.setattr("kvtool.config.loading.load_config", build)
    (folder / "kvtool.toml").touch()
    with pytest.raises(type(raised)) as told:
        run(["config"])
    assert told.value.args == raised.args


@pytest.mark.parametrize(
    ("stage", "flags", "requests"),
    [
        ("accounting", [], 5),
        ("accounting", ["--concurrency", "4"], 5),
        ("accounting", ["--concurrency", "4", "--capacity", "100"], 5),
        ("accounting", ["--rules", "block-lru"], 5),
        ("trying fixes", [], 24),
        ("without the cache", ["--concurrency", "4"], 24),
    ],
)
def test_ctrl_c_leaves_a_partial_report(
    stage: str,
    flags: list[str],
    requests: int,
    folder: Path,
    bytes_json: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interruptible: None,
) -> None:
    interrupt_at(monkeypatch, 5, stage)
    arguments = ["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--min-hit-rate", "1", *flags]
    assert run(arguments) == 130
    out, err = capsys.readouterr()
    assert err == ""
    assert "PARTIAL" in out
    assert ("interrupted after 5 requests: the figures cover only these" in " ".join(out.split())) == (requests == 5)
    assert not re.search(r"\b(FAIL|PASS|ok)\b", out)
    interrupt_at(monkeypatch, 5, stage)
    assert run([*arguments, "--json", "--per-request"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["partial"]) == ("partial", True)
    assert len(document["requests"]) == document["totals"]["requests"] == requests
    assert sum(document["fates"].values()) == document["totals"]["prompt_tokens"]


def test_ctrl_c_never_tears_the_books(
    folder: Path,
    bytes_json: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interruptible: None,
) -> None:
    from kvtool.accounting.prefix_tree import RadixTree

    insert = RadixTree.insert
    calls = 0

    def insert_and_interrupt(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        insert(*arguments)
        if calls == 9:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RadixTree, "insert", insert_and_interrupt)
    assert run(["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--json"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert sum(document["fates"].values()) == document["totals"]["prompt_tokens"]
    assert 0 < document["totals"]["requests"] < 24


def test_ctrl_c_before_there_is_anything_to_show(
    folder: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    interrupt_at(monkeypatch, 5, "unlimited cache")
    with pytest.raises(KeyboardInterrupt):  # which the edge turns into a line and 130
        run(["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--concurrency", "4", "--capacity", "100"])


def interrupted_process(folder: Path, arguments: list[str], stage: str) -> tuple[int, str, str]:
    """Send SIGINT to a process that waits for it as soon as it has finished a request of the stage, however long that takes."""
    program = f"""
import os, signal, sys
from kvtool.text.terminal import progress
from kvtool.text.terminal.progress import Progress
from kvtool.__main__ import main
progress.LINE_EVERY = float("inf")  # on a busy machine lines would tell how long it takes
advance = Progress.advance
arrived, waker = os.pipe()
os.set_blocking(waker, False)
signal.set_wakeup_fd(waker)  # told of the signal even where it comes before the wait, or is held back
told = []
def waiting(self, count=1):
    advance(self, count)
    if count and self._stage == {stage!r} and not told:
        told.append(True)
        print("ready", file=sys.stderr, flush=True)
        os.read(arrived, 1)
Progress.advance = waiting
sys.argv = {["kvtool", *arguments]!r}
main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb", "COLUMNS": "80"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=600)  # so that it ends at all; nothing is told by how long it takes
    finally:
        process.kill()
    return process.returncode, out, err


def test_ctrl_c_in_the_accounting_of_a_process(folder: Path, bytes_json: str) -> None:
    code, out, err = interrupted_process(folder, ["profile", "w.yaml", "-t", bytes_json], "accounting")
    assert code == 130
    assert "measured on this machine" not in " ".join(out.split())
    assert "\nPARTIAL: " in out
    assert err.replace("ready\n", "") == ""


@pytest.mark.engine
def test_ctrl_c_in_the_measurement_of_a_process(folder: Path, bytes_json: str) -> None:
    arguments = ["profile", "w.yaml", "-t", bytes_json, "--measure-budget", "3600", "--no-advice"]
    code, out, err = interrupted_process(folder, arguments, "measuring")
    assert code == 130
    assert "\nPARTIAL: " in out
    told = " ".join(out.split())  # how lines wrap depends on how long the times are
    assert told.index("Hit rate ") < told.index("measured on this machine") < told.index("PARTIAL: ")
    assert err.replace("ready\n", "") == ""
