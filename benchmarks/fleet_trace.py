"""Logs of a fleet as block traces: CPU for each MB, memory by the length of the log, one file beside many, and plans from traces.

The log is that of `chat_log.py`: chat requests of four services. Figures are CPU seconds of whole processes, in turns.

    python benchmarks/fleet_trace.py [--requests 8000] [--files 100] [--seed 5] [--runs 3]
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from chat_log import write
from timing import machine, time_process

KVTOOL = (sys.executable, "-m", "kvtool")
GB = 1000
"""MB."""


def split(log: Path, folder: Path, count: int) -> Path:
    """The records of a log in turns into so many files."""
    folder.mkdir()
    files = [(folder / f"{number:04}.jsonl").open("wb") for number in range(count)]
    with log.open("rb") as lines:
        for line, file in zip(lines, itertools.cycle(files), strict=False):
            file.write(line)
    for file in files:
        file.close()
    return folder


def shorter(log: Path, part: Path, requests: int) -> Path:
    """The first requests of a log."""
    with log.open("rb") as lines, part.open("wb") as file:
        file.writelines(itertools.islice(lines, requests))
    return part


def traced(source: Path, blocks: Path) -> tuple[float, float]:
    """CPU seconds and MiB of tracing from nothing."""
    shutil.rmtree(blocks, ignore_errors=True)
    found = time_process([*KVTOOL, "trace", str(source), "-o", str(blocks), "-q"], runs=1, warm_up=0)
    return found.cpu, found.peak_mib


def planned(source: Path) -> float:
    """CPU seconds of a capacity curve."""
    return time_process([*KVTOOL, "what-if", str(source), "--sweep", "capacity", "-q"], runs=1, warm_up=0).cpu


def main() -> None:
    """Make the log, trace and plan in turns, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=8000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        log = here / "chat.jsonl"
        write(log, asked.requests, asked.seed)
        half = shorter(log, here / "half.jsonl", asked.requests // 2)
        many = split(log, here / "many", asked.files)
        megabytes, less = log.stat().st_size / 1e6, half.stat().st_size / 1e6
        one, halves, files, of_log, of_blocks = [], [], [], [], []
        peak = half_peak = many_peak = 0.0
        for _ in range(asked.runs):
            cpu, half_peak = traced(half, here / "half-blocks")
            halves.append(cpu)
            cpu, peak = traced(log, here / "blocks")
            one.append(cpu)
            cpu, many_peak = traced(many, here / "many-blocks")
            files.append(cpu)
            of_log.append(planned(log))
            of_blocks.append(planned(here / "blocks"))
        written = sum(path.stat().st_size for path in (here / "blocks").iterdir()) / 1e6
    seconds = statistics.median(one)
    rate = (megabytes - less) / max(seconds - statistics.median(halves), 1e-9)
    print(machine())
    print(f"{asked.requests:,} requests, {megabytes:.0f} MB; traces {written:.1f} MB, 1 : {megabytes / written:.0f}")
    print(f"one file      {seconds:6.1f} s CPU  {megabytes / seconds:6.1f} MB/s  peak {peak:.0f} MiB")
    print(
        f"half of it    {statistics.median(halves):6.1f} s CPU  peak {half_peak:.0f} MiB, {peak / half_peak:.2f} x for 2 x"
    )
    print(
        f"{asked.files:4} files     {statistics.median(files):6.1f} s CPU, {statistics.median(files) / seconds:.2f} x one"
        f"  peak {many_peak:.0f} MiB"
    )
    print(f"second half alone {rate:.1f} MB/s: at that rate 1 GB is {GB / rate / 60:.1f} min of CPU (extrapolated)")
    fast = statistics.median(of_log) / statistics.median(of_blocks)
    print(f"capacity curve from the log {statistics.median(of_log):.1f} s CPU, from traces 1 / {fast:.1f} of it")


if __name__ == "__main__":
    main()
