"""Whole processes, timed from outside: wall seconds and the kernel's own figure of peak memory; and what disturbs them."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_LOOK_EVERY = 1.0
"""Seconds between two looks at the memory of processes: each holds them up for a moment."""


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


@dataclass
class Watched:
    """A run with its children: wall clock, CPU seconds, memory of all together, and when it first told a hit rate."""

    wall: float = 0.0
    cpu: float = 0.0
    peak_mib: float = 0.0
    first_rate: float | None = None

    @property
    def busy(self) -> float:
        """Cores at work, in the mean."""
        return self.cpu / self.wall


def watch_process(command: Sequence[str]) -> Watched:
    """Run a command whose progress goes to a terminal; exits where it fails."""
    found = Watched()
    ours, theirs = os.openpty()
    began = time.perf_counter()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    )
    os.close(theirs)
    said = b""
    looked = 0.0
    while True:
        if select.select([ours], [], [], 0.25)[0]:
            try:
                data = os.read(ours, 65_536)
            except OSError:  # closed by the other side
                break
            if not data:
                break
            said = (said + data)[-4_096:]
            if found.first_rate is None and b"% hit" in said:
                found.first_rate = time.perf_counter() - began
        if time.perf_counter() - looked > _LOOK_EVERY:
            looked = time.perf_counter()
            found.peak_mib = max(found.peak_mib, _memory(process.pid))
    _, status, usage = os.wait4(process.pid, 0)
    os.close(ours)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed: {said.decode(errors='replace')}")
    found.wall = time.perf_counter() - began
    found.cpu = usage.ru_utime + usage.ru_stime
    return found


def _memory(process: int) -> float:
    """MiB of a process and its children, what they share counted once."""
    total = 0.0
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
        for each in (str(process), *children):
            memory = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{each}/smaps_rollup").read_text(), re.MULTILINE)
            total += 0 if memory is None else int(memory[1])
    except OSError:  # it is ending, or this is not Linux
        return 0.0
    return total / 1024


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
