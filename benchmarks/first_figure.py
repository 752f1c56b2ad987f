"""How soon a profile has measured a request of `workloads/support-bot.yaml`, since its measurement and since the process began.

    python benchmarks/first_figure.py [--runs N]

The measurement begins with importing torch and making the model. Its first figure is that of the first request, computed with the
cache and without. All of the measurement has a budget of 10 s. Each run is a process of its own; what is told are medians.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from timing import machine

_WORKLOAD = str(Path(__file__).resolve().parent.parent / "workloads" / "support-bot.yaml")
_WATCHED = """
import sys, time
from kvtool.text.terminal.progress import Progress

marks, stages = [], []
stage, advance = Progress.stage, Progress.advance

def told(self, name, *rest):
    stages.append(name)
    if name == "measuring":
        mark()
    stage(self, name, *rest)

def counted(self, count=1):
    if stages[-1:] == ["measuring"] and count:
        mark()
    advance(self, count)

def mark():
    marks.append((time.monotonic(), time.process_time()))

Progress.stage, Progress.advance = told, counted
from kvtool.cli.app import run

code = run(sys.argv[1:])
mark()
print(*(figure for each in (marks[0], marks[1], marks[-1]) for figure in each))
sys.exit(code)
"""


def watched() -> list[float]:
    """Seconds of wall clock and of CPU: to the first figure since the measurement began and since the process did; to the end."""
    started = time.monotonic()
    command = [sys.executable, "-c", _WATCHED, "profile", _WORKLOAD, "--no-config", "--quiet"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[-2]
    began, began_cpu, first, first_cpu, ended, ended_cpu = map(float, said.split())
    return [first - began, first_cpu - began_cpu, first - started, first_cpu, ended - began, ended_cpu - began_cpu]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    rows = list(zip(*(watched() for _ in range(options.runs)), strict=True))
    names = (
        "first figure, since the measurement began",
        "first figure, since the process began",
        "end of the measurement",
    )
    for at, name in enumerate(names):
        wall, cpu = (statistics.median(each) for each in rows[2 * at : 2 * at + 2])
        print(f"{name:42} {wall:6.2f} s  {cpu:6.2f} s CPU")


if __name__ == "__main__":
    main()
