"""How long `kvtool --help` and `--version` take, beside a Python that does nothing.

python benchmarks/startup.py
"""

from __future__ import annotations

import sys

from timing import machine, time_process


def main() -> None:
    print(machine())
    bare = time_process([sys.executable, "-c", "pass"], runs=11)
    print(f"python -c pass     {bare.seconds * 1000:6.0f} ms")
    for flag in ("--version", "--help"):
        timed = time_process([sys.executable, "-m", "kvtool", flag], runs=11)
        print(
            f"kvtool {flag:10}  {timed.seconds * 1000:6.0f} ms  {timed.seconds / bare.seconds:4.1f} x  {timed.peak_mib:4.0f} MiB"
        )


if __name__ == "__main__":
    main()
