"""How long kvtool takes to start, beside a Python that does nothing: help, imports, tokenizer, and a profile that measures nothing.

python benchmarks/startup.py

Each is a process of its own; the second figure is its CPU time, which other programs on the machine change least. Bytecode is
written first, as an installed package has it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from timing import machine, time_process

_WORKLOAD = str(Path(__file__).resolve().parent.parent / "workloads" / "support-bot.yaml")
_IMPORTS = (
    "kvtool.cli.root, kvtool.cli.commands.profile, kvtool.gate.profiled, kvtool.profiler.opening, "
    "kvtool.report.terminal.profile"
)
_RARELY = "import gc; gc.set_threshold(10_000, 20, 20)"
"""As `kvtool.__main__` has it before it imports anything."""
_TOKENIZER = "kvtool.text.tokens.tokenizer"
_ROWS = (
    ("kvtool --version", ["-m", "kvtool", "--version"]),
    ("kvtool --help", ["-m", "kvtool", "--help"]),
    ("imports of profile", ["-c", f"{_RARELY}; import {_IMPORTS}, rich.console"]),
    (
        "built-in tokenizer",
        ["-c", f"from {_TOKENIZER} import load_tokenizer; load_tokenizer(None, offline=True)"],
    ),
    ("profile, no advice", ["-m", "kvtool", "profile", _WORKLOAD, "--dry-run", "--no-advice", "--no-config"]),
    ("profile --dry-run", ["-m", "kvtool", "profile", _WORKLOAD, "--dry-run", "--no-config"]),
)
_WRITES = {"PYTHONDONTWRITEBYTECODE": ""}


def main() -> None:
    print(machine())
    bare = time_process([sys.executable, "-c", "pass"], runs=11, env=_WRITES)
    print(f"{'python -c pass':20} {bare.seconds * 1000:6.0f} ms  {bare.cpu * 1000:6.0f} ms CPU")
    for name, arguments in _ROWS:
        timed = time_process([sys.executable, *arguments], runs=7, env=_WRITES)
        wall, cpu, ratio = timed.seconds * 1000, timed.cpu * 1000, timed.cpu / bare.cpu
        print(f"{name:20} {wall:6.0f} ms  {cpu:6.0f} ms CPU  {ratio:5.1f} x  {timed.peak_mib:4.0f} MiB")


if __name__ == "__main__":
    main()
