"""A block-hash trace from start to report, against a bare loop that only reads it and looks its blocks up.

python benchmarks/trace.py TRACE.jsonl
"""

from __future__ import annotations

import sys

from timing import machine, time_process

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


def main(trace: str) -> None:
    print(machine())
    bare = time_process([sys.executable, "-c", BARE, trace])
    print(f"bare loop, unlimited cache      {bare.seconds:6.2f} s  {bare.peak_mib:6.0f} MiB")
    for name, flags in (
        ("kvtool, vllm rules, unlimited", ()),
        ("kvtool, vllm rules, 10,000", ("--capacity", "10000")),
        ("kvtool, block-lru, 10,000", ("--rules", "block-lru", "--capacity", "10000")),
    ):
        timed = time_process([sys.executable, "-m", "kvtool", "profile", trace, "--dry-run", *flags])
        print(
            f"{name:31} {timed.seconds:6.2f} s  {timed.peak_mib:6.0f} MiB  {timed.seconds / bare.seconds:5.1f} x the bare loop"
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
