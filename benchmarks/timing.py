"""Whole processes, timed from outside: wall seconds and the kernel's own figure of peak memory; and what disturbs them."""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timed:
    """Medians over the counted runs; `seconds` wall clock, `cpu` of user and system, `peak_mib` resident memory of the process."""

    seconds: float
    peak_mib: float
    runs: int
    cpu: float = 0.0


def time_process(
    command: Sequence[str], *, runs: int = 3, warm_up: int = 1, env: dict[str, str] | None = None
) -> Timed:
    """Run a command `warm_up + runs` times with its output thrown away; exits where it fails."""
    seconds: list[float] = []
    peaks: list[float] = []
    cpu: list[float] = []
    for index in range(warm_up + runs):
        began = time.perf_counter()
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1)]
        process = os.posix_spawnp(command[0], list(command), {**os.environ, **(env or {})}, file_actions=actions)
        os.close(null)
        _, status, usage = os.wait4(process, 0)
        if os.waitstatus_to_exitcode(status):
            sys.exit(f"{' '.join(command)} failed")
        if index >= warm_up:
            seconds.append(time.perf_counter() - began)
            cpu.append(usage.ru_utime + usage.ru_stime)
            peaks.append(usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20))
    return Timed(statistics.median(seconds), max(peaks), runs, statistics.median(cpu))


def machine() -> str:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:  # noqa: PTH123 - a pseudo file
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{os.cpu_count()} cores, {model}, Python {platform.python_version()}"


@contextlib.contextmanager
def beside_a_busy_program(*, wanted: bool) -> Iterator[None]:
    """One that computes without end on one core, while the block runs."""
    if not wanted:
        yield
        return
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
