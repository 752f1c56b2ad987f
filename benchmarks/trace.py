"""Traces of block hashes from start to report: what a run costs, what advice adds, and a million requests.

python benchmarks/trace.py TRACE.jsonl [--million N] [--runs N]

CPU seconds of the whole process, median of the runs, and its peak memory. The bare loop only reads the trace and looks its blocks
up in a set. The made trace (`benchmarks/made_trace.py`, seed 0) is like Mooncake's conversation trace; --million 0 leaves it out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from made_trace import write_trace
from timing import Timed, machine, time_process

BARE = """
import json, sys
seen, hits, blocks = set(), 0, 0
for line in open(sys.argv[1]):
    ids = json.loads(line)["hash_ids"]
    for index, block in enumerate(ids):
        if block not in seen:
            break
        hits += 1
    blocks += len(ids)
    seen.update(ids)
print(hits, blocks)
"""
_ONE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
KINDS = (
    ("vLLM's rules, unlimited cache", ()),
    ("vLLM's rules, 10,000 blocks", ("--capacity", "10000")),
    ("--rules block-lru, 10,000 blocks", ("--rules", "block-lru", "--capacity", "10000")),
)


def profile(trace: Path, *flags: str, runs: int) -> Timed:
    """A dry run of `kvtool profile`."""
    command = [sys.executable, "-m", "kvtool", "profile", str(trace), "--dry-run", "--no-config", *flags]
    return time_process(command, runs=runs, warm_up=0 if runs == 1 else 1)


def rows(trace: Path, runs: int) -> None:
    """A row for each kind of run: without advice, with all of it, and the ratio."""
    print("| | no advice | peak | with advice | peak | ratio |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, flags in KINDS:
        plain = profile(trace, *flags, "--no-advice", runs=runs)
        advised = profile(trace, *flags, runs=runs)
        print(
            f"| {name} | {plain.cpu:.2f} s | {plain.peak_mib:.0f} MiB | {advised.cpu:.2f} s | {advised.peak_mib:.0f} MiB "
            f"| {advised.cpu / plain.cpu:.2f} |",
            flush=True,
        )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--million", type=int, default=1_000_000, metavar="N", help="requests of the made trace")
    parser.add_argument("--runs", type=int, default=3, help="of each row of TRACE; the made trace is run once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(machine())
        one = Path(folder, "one.jsonl")
        one.write_text(_ONE, encoding="utf-8")
        with options.trace.open("rb") as lines:
            requests = sum(1 for _ in lines)
        bare = time_process([sys.executable, "-c", BARE, str(options.trace)], runs=options.runs)
        start = profile(one, "--no-advice", runs=options.runs)
        print(
            f"\n{options.trace.name}, {requests:,} requests: bare loop {bare.cpu:.2f} s, start-up {start.cpu:.2f} s\n"
        )
        rows(options.trace, options.runs)
        if options.million:
            made = Path(folder, "made.jsonl")
            write_trace(made, options.million, seed=0)
            print(f"\nmade trace, {options.million:,} requests, {made.stat().st_size >> 20} MiB\n")
            rows(made, 1)


if __name__ == "__main__":
    main()
