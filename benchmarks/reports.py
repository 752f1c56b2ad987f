"""What a gate and its reports cost beside the plain run: `kvtool check` and every format, against `kvtool profile --dry-run`.

python benchmarks/reports.py [WORKLOAD...]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from timing import machine, time_process

_FORMATS = ("json", "markdown", "github", "junit", "sarif", "gitlab", "svg", "html")
_RUNS = 3


def main() -> None:
    print(machine())
    workloads = sys.argv[1:] or [str(path) for path in sorted(Path("workloads").glob("*.yaml"))]
    kvtool = [sys.executable, "-m", "kvtool"]
    quiet = ["--quiet", "--no-config"]
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "saved.json")  # noqa: PTH118 - an argument
        total = 0.0
        for workload in workloads:
            timed = time_process([*kvtool, "profile", workload, "--dry-run", *quiet], runs=_RUNS)
            total += timed.seconds
        print(f"{len(workloads)} x kvtool profile --dry-run         {total:6.2f} s")
        for label, flags in (
            ("check", []),
            ("check --no-advice", ["--no-advice"]),
            ("check, JSON with views", ["-o", f"json={saved}"]),
        ):
            timed = time_process([*kvtool, "check", *workloads, *quiet, *flags], runs=_RUNS)
            print(
                f"kvtool {label:29}  {timed.seconds:6.2f} s  {timed.seconds / total:5.2f} x  {timed.peak_mib:4.0f} MiB"
            )
        print(f"kvtool report of that result ({os.path.getsize(saved):,} bytes), by format")  # noqa: PTH202
        for name in _FORMATS:
            path = os.path.join(folder, f"out.{name}")  # noqa: PTH118
            timed = time_process([*kvtool, "report", saved, "-o", f"{name}={path}", "--quiet"], runs=_RUNS)
            written = os.path.getsize(path)  # noqa: PTH202
            print(f"  {name:10}  {timed.seconds:6.2f} s  {written:>10,} bytes")


if __name__ == "__main__":
    main()
