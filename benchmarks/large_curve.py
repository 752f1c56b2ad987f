"""The capacity curve of many millions of references: exact, and from samples with the error that they tell.

Conversations whose requests hold all blocks that came before, with a common beginning for each of some applications, interleaved:
22 million references by default. Each curve is made in a process of its own, which reads the trace from arrays: CPU seconds without
reading it, and peak memory of the process. Of sampled curves: how far they are from the exact one over sizes of the cache, and at
how many of these the exact rate lies within the error that is told (two standard errors of eight parts).

    python benchmarks/large_curve.py [--references 22000000] [--samples 0.1 0.01] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from timing import machine

from kvtool.accounting.curves.capacity_curve import capacity_curve
from kvtool.accounting.curves.sampled_curve import sampled_curve
from kvtool.workload.block_trace import RequestedBlocks

POINTS = 40
COLUMNS = ("numbers", "starts", "asked")


def interleaved(references: int, seed: int) -> RequestedBlocks:
    """Requests of conversations in random order, each a few blocks longer than the one before it."""
    rng = np.random.default_rng(seed)
    count = max(references // 100, 1)
    conversations = (rng.random(count) ** 3 * max(count // 4, 1)).astype(np.int64)
    order = np.argsort(conversations, kind="stable")
    ordered = conversations[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    turn = np.empty(count, dtype=np.int64)
    turn[order] = np.arange(count) - np.repeat(first, np.diff(np.r_[first, count]))
    lengths = 40 + 12 * (turn % 30)
    shared = 20 + conversations % 20
    starts = np.concatenate([[0], np.cumsum(lengths)])
    starts = starts[: np.searchsorted(starts, references, side="right")]
    kept = len(starts) - 1
    total = int(starts[-1])
    counts = lengths[:kept]
    place = np.arange(total) - np.repeat(starts[:-1], counts)
    own = np.repeat(conversations[:kept] * 30 + turn[:kept] // 30 % 30, counts)
    common = place < np.repeat(shared[:kept], counts)
    names = np.where(common, np.repeat(conversations[:kept] % 20, counts) * 64 + place, 2_000 + own * 512 + place)
    numbers = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return RequestedBlocks(numbers, starts.astype(np.int64), counts.astype(np.int64))


def peak_mib() -> float:
    """Of this process since it was begun: what the kernel adds up for its parent counts the parent's own memory, too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def curve(folder: Path, sample: float) -> dict[str, object]:
    """Rates over sizes, their errors, and what they took."""
    blocks = RequestedBlocks(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in COLUMNS))
    distinct = int(blocks.numbers.max()) + 1
    sizes = np.unique(np.geomspace(1_000, distinct, POINTS).astype(int)).tolist()
    began = time.process_time()
    if sample >= 1:
        whole = capacity_curve(blocks)
        rates, errors = [whole.at(size) / blocks.references for size in sizes], [0.0] * len(sizes)
    else:
        part = sampled_curve(blocks, sample)
        rates, errors = [part.rate(size) for size in sizes], [part.error(size) for size in sizes]
    return {
        "references": blocks.references,
        "distinct": distinct,
        "cpu": time.process_time() - began,
        "peak_mib": peak_mib(),
        "rates": rates,
        "errors": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--references", type=int, default=22_000_000)
    parser.add_argument("--samples", type=float, nargs="*", default=[0.1, 0.01])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", nargs=2, metavar=("FOLDER", "SAMPLE"), help="print one curve as JSON")
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(curve(Path(asked.one[0]), float(asked.one[1]))))
        return
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        blocks = interleaved(asked.references, asked.seed)
        for name in COLUMNS:
            np.save(Path(folder) / name, getattr(blocks, name))
        del blocks
        compare(folder, asked.samples)


def compare(folder: str, samples: Sequence[float]) -> None:
    """The exact curve, and each of the samples beside it."""
    exact: list[float] = []
    for sample in (1.0, *samples):
        command = [sys.executable, __file__, "--one", folder, str(sample)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        name = "exact" if sample >= 1 else f"sampled, {sample:g} of the blocks"
        if sample >= 1:
            exact = found["rates"]
            print(f"{found['references']:,} references to {found['distinct']:,} blocks, {len(exact)} sizes")
        line = f"{name:28}{found['cpu']:7.2f} s CPU{found['peak_mib']:7.0f} MiB"
        if sample < 1:
            off = [abs(rate - true) for rate, true in zip(found["rates"], exact, strict=True)]
            within = sum(far <= error for far, error in zip(off, found["errors"], strict=True))
            line += f", off by {100 * max(off):.2f} points at most, told {100 * max(found['errors']):.2f}"
            line += f", within what is told at {within} of {len(off)}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
