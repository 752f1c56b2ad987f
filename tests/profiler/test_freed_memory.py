"""What a long run frees goes back to the system, though what is left keeps the heap in pieces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtool.profiler.run import run_loop
from tests.conftest import Command

PROGRAM = """
import resource
from pathlib import Path
from kvtool.profiler.run.freed_memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

kept = [bytes(20_000) for _ in range(5_000)]
full = resident()
kept[:-1] = [None] * (len(kept) - 1)  # the last one stands at the end of the heap
before = resident()
give_back()
print(full, before, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_free_pages_go_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    full, before, after = map(int, done.stdout.split())
    if before < full - 50_000_000:
        pytest.skip("this C library gives pages back by itself")
    assert after < full - 80_000_000


@pytest.mark.parametrize(("more", "runs"), [((), 1), (("--concurrency", "8"), 2)])
def test_a_run_does_so_again_and_again(
    more: tuple[str, ...], runs: int, in_folder: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each so many in each run, though requests that are in work together end at one count."""
    calls: list[Any] = []
    monkeypatch.setattr(run_loop, "give_back", lambda: calls.append(1))
    monkeypatch.setattr(run_loop, "_GIVEN_BACK", 10)
    Path("log.jsonl").write_text('{"prompt": "Hello there."}\n' * 45)
    assert in_folder("profile", "log.jsonl", "--no-advice", "--dry-run", "--jobs", "1", *more)[0] == 0
    assert len(calls) == 4 * runs
