"""Processes of this machine, as tests look for those that a command started (in /proc)."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path


def children(process: int) -> set[int]:
    """Those that a process's first thread has started and not waited for."""
    return set(map(int, Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()))


def is_gone(process: int) -> bool:
    """Whether a process has ended, or does so soon: one whose parent was killed notices when it writes."""
    for _ in range(300):
        with suppress(OSError):
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
            if stat.rpartition(")")[2].split()[0] not in "ZX":
                time.sleep(0.1)
                continue
        return True
    return False
