"""What a long run frees goes back to the system, though what is left keeps the heap in pieces."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, resource
from pathlib import Path
from kvtool.__main__ import collect_seldom

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

collect_seldom()
collect_seldom()
assert len(gc.callbacks) == 1
kept = [bytes(20_000) for _ in range(5_000)]
full = resident()
kept[:-1] = [None] * (len(kept) - 1)  # the last one stands at the end of the heap
before = resident()
gc.collect(0)
young = resident()
gc.collect(1)
print(full, before, young, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_free_pages_go_back_with_older_objects() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    full, before, young, after = map(int, done.stdout.split())
    if before < full - 50_000_000:
        pytest.skip("this C library gives pages back by itself")
    assert young > full - 10_000_000
    assert after < full - 80_000_000
