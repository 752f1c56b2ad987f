"""Hit rates of a trace for many sizes of a cache, beside two planners: AIPerf's `analyze-trace` and LMCache's cache simulator.

Whole processes, CPU seconds and peak memory, in turns: `kvtool what-if --sweep capacity` counts every size in one pass and prints
30; LMCache replays the trace once for each of 30; AIPerf knows an unlimited cache only, and gives the mean over requests. LMCache
gets the trace in the form of its own logs, full blocks only, made outside of the time. At the largest size nothing is evicted, and
the part of the prompt tokens that hits is compared: it must be the same but for partial last blocks, which LMCache does not know.

    python benchmarks/vs_planners.py TRACE… [--aiperf-python PATH] [--lmcache-python PATH]

PATH is the interpreter of an environment with AIPerf (also: $AIPERF_PYTHON), or with LMCache (also: $LMCACHE_PYTHON). TRACE is in
Mooncake's format; compressed ones are unpacked first.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from timing import machine, time_process

SIZES = (16, 32, 64, 128, 256, 512)
"""Of blocks, in tokens."""
LEAST, MOST, POINTS = 1, 512, 30
"""GiB that LMCache is asked for, a block taking a MiB."""
SWEEP = "lmcache.tools.cache_simulator.plot_hit_rate"


def lines_of(path: Path) -> list[bytes]:
    """The records of a trace."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return list(file)


def block_of(lines: list[bytes]) -> int:
    """Tokens of a trace's blocks: the size by which its first requests have as many as they name."""
    first = [json.loads(line) for line in lines[:100]]
    fit = (s for s in SIZES if all(0 <= -(-each["input_length"] // s) - len(each["hash_ids"]) <= 1 for each in first))
    return next(fit)


def as_lookups(lines: list[bytes], path: Path, block: int) -> None:
    """The trace as LMCache logs lookups."""
    with path.open("w") as file:
        for number, line in enumerate(lines):
            record = json.loads(line)
            tokens = record["input_length"]
            hashes = [hex(block & (1 << 64) - 1) for block in record["hash_ids"][: tokens // block]]
            found = {"timestamp": number, "request_id": str(number), "model_name": "m", "chunk_size": block}
            file.write(json.dumps({**found, "seq_len": tokens, "chunk_hashes": hashes}) + "\n")


def compare(trace: Path, folder: Path, aiperf: str | None, lmcache: str | None, runs: int) -> None:
    """One trace, and who is there."""
    lines = lines_of(trace)
    block = block_of(lines)
    plain, lookups = folder / "trace.jsonl", folder / "lookups.jsonl"
    plain.write_bytes(b"".join(lines))
    sizes = [round(1024 * LEAST * (MOST / LEAST) ** (at / (POINTS - 1))) for at in range(POINTS)]
    ours = [
        sys.executable,
        "-m",
        "kvtool",
        "what-if",
        str(plain),
        "--no-config",
        "-q",
        "--trace-block-size",
        str(block),
    ]
    ours += ["--sweep"]
    curve = [*ours, "capacity", "--rules", "block-lru", "--capacities", ",".join(map(str, sizes))]
    print(f"\n{trace.name}: {len(lines):,} requests, blocks of {block}")
    print(f"{'':42}{'CPU':>9}{'memory':>10}{'CPU beside':>12}")
    base = told("kvtool what-if, 30 sizes of all in one pass", curve, runs, None)
    if lmcache:
        as_lookups(lines, lookups, block)
        sweep = [lmcache, "-m", SWEEP, "-i", str(lookups), "--kv-bytes-per-chunk", str(1 << 20)]
        sweep += ["--min-capacity-gib", str(LEAST), "--max-capacity-gib", str(MOST), "--points", str(POINTS)]
        sweep += ["-o", str(folder / "curve.png")]
        told("LMCache's simulator, 30 sizes", sweep, 1, base)
        largest = re.findall(r"([\d.]+)%", printed(sweep))[-1]
        coarse = json.loads(printed([*ours, "block-size", "--block-sizes", str(block), "--json"]))
        print(
            f"  tokens that hit at the largest: LMCache {largest} %, kvtool {100 * coarse['rows'][0]['hit_rate']:.2f} %"
        )
    if aiperf:
        told(
            "AIPerf analyze-trace, unlimited",
            [aiperf, "-m", "aiperf", "analyze-trace", str(plain), "--block-size", str(block)],
            runs,
            base,
        )


def told(name: str, command: Sequence[str], runs: int, base: float | None) -> float:
    """Print a line; returns its CPU seconds."""
    timed = time_process(command, runs=runs, warm_up=int(base is None))
    beside = "" if base is None else f"{timed.cpu / base:.1f} x"
    print(f"{name:42}{timed.cpu:7.2f} s{timed.peak_mib:6.0f} MiB{beside:>12}", flush=True)
    return timed.cpu


def printed(command: Sequence[str]) -> str:
    """What a command prints; exits where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("--aiperf-python", default=os.environ.get("AIPERF_PYTHON"))
    parser.add_argument("--lmcache-python", default=os.environ.get("LMCACHE_PYTHON"))
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    print(machine())
    for trace in asked.traces:
        with tempfile.TemporaryDirectory() as folder:
            compare(trace, Path(folder), asked.aiperf_python, asked.lmcache_python, asked.runs)


if __name__ == "__main__":
    main()
