"""`what-if --jobs N`: the same bytes; however a command ends, no process of it is left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.profiler.what_if import sweep_tasks
from kvtool.workload.tasks import process_pool
from tests.processes import children, is_gone

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")

PROGRAM = """
import os, sys, time
from kvtool.profiler.what_if import sweep_tasks
from kvtool.__main__ import main
def slow(trace, asked):
    os.write(2, b"ready\\n")  # whole, whoever writes beside it
    time.sleep(60)
sweep_tasks.sweep = slow
sys.argv[0] = "kvtool"
main()
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rng = random.Random(5)
    rows = []
    for at in range(300):
        chain, length = rng.randrange(12), rng.randrange(1, 9)
        ids = [1000 * chain + step for step in range(length)]
        rows.append({"timestamp": 100 * at, "input_length": 512 * length, "output_length": 3, "hash_ids": ids})
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy this process whatever other tests have imported."""
    monkeypatch.setattr(process_pool, "can_fork", lambda: sys.platform == "linux")


@pytest.mark.parametrize(
    "flags",
    [
        ["--sweep", "policy", "--rules", "block-lru"],
        ["--sweep", "policy", "--rules", "block-lru", "--policies", "lfu,opt", "--capacities", "3,30"],
        ["--sweep", "block-size"],
        ["--sweep", "capacity"],
        ["--sweep", "ttl"],
    ],
)
def test_the_same_bytes(trace: str, flags: list[str], forking: None, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for jobs in "13":
        for how in (["--json"], []):
            assert run(["what-if", trace, *flags, *how, "--jobs", jobs]) == 0
            printed.append(capsys.readouterr())
    assert printed[:2] == printed[2:]


def test_the_same_words_for_a_setting_that_cannot_be(
    trace: str, forking: None, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for jobs in "12":
        code = run(["what-if", trace, "--sweep", "block-size", "--block-sizes", "512,700,900", "--jobs", jobs])
        printed.append((code, *capsys.readouterr()))
    assert printed[0] == printed[1]
    assert printed[0][0] == 2
    assert "700" in printed[0][2]


@linux
def test_a_row_that_ends_its_processes_is_named_and_the_others_stand(
    trace: str, forking: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = sweep_tasks.sweep

    def deadly(*asked: object) -> object:
        if asked[1].policies == ("fifo",):  # type: ignore[attr-defined] # an AskedSweep
            os.kill(os.getpid(), signal.SIGKILL)
        return sweep(*asked)  # type: ignore[arg-type] # the same

    monkeypatch.setattr(sweep_tasks, "sweep", deadly)
    flags = ["--sweep", "policy", "--rules", "block-lru", "--policies", "lru,fifo,lfu", "--capacities", "30"]
    assert run(["what-if", trace, *flags, "--json", "--jobs", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in found["rows"]] == ["lru", "lfu"]
    assert found["notes"] == ["left out: fifo, 30 blocks, failed 3 times; signal 9 ended its process"]
    flags = ["--sweep", "policy", "--rules", "block-lru", "--policies", "fifo", "--capacities", "30,40"]
    assert run(["what-if", trace, *flags, "--jobs", "2"]) == 2
    assert "no row was computed: left out: fifo, 30 blocks" in capsys.readouterr().err


# Ends


@linux
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_signal_ends_all(trace: str, number: int, code: int) -> None:
    flags = ["--sweep", "policy", "--rules", "block-lru", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "what-if", trace, *flags],
        env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stderr is not None
        assert [process.stderr.readline() for _ in range(2)] == ["ready\n"] * 2
        others = children(process.pid)
        assert len(others) == 2
        process.send_signal(number)
        told = process.communicate(timeout=50)[1]
    finally:
        process.kill()
    assert process.returncode == code
    assert told.count("\n") == (number != signal.SIGKILL)
    assert all(is_gone(each) for each in others)
