"""Decode planning speed on one core, in CPU time: blocks of 16, Llama-3.1-8B's heads, sequences with different tails.

For each pattern of sharing: how many times as many tokens a flat plan reads, a plan made anew (median), moving the ends of the last
one (median of steps that need no new plan), the ratio of the two, and the peak of memory in which a plan is made, as a multiple of
the block table's.

    python benchmarks/planner.py [--large]
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import get_args

import numpy as np
from timing import machine

from kvtool.engine.attention.decode_plan import DecodePlan, Int32
from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.config import DecodeMode

BLOCK = 16


def nothing(table: Int32, _: np.random.Generator) -> None:
    """No two sequences have a block in common."""


def one_prefix(table: Int32, _: np.random.Generator) -> None:
    table[:, : table.shape[1] // 2] = table[0, : table.shape[1] // 2]


def almost_all(table: Int32, _: np.random.Generator) -> None:
    table[:, : table.shape[1] * 19 // 20] = table[0, : table.shape[1] * 19 // 20]


def two_levels(table: Int32, _: np.random.Generator) -> None:
    quarter = table.shape[1] // 4
    table[:, :quarter] = table[0, :quarter]
    for first in range(0, len(table), 8):
        table[first : first + 8, quarter : 3 * quarter] = table[first, quarter : 3 * quarter]


def random_tree(table: Int32, rng: np.random.Generator) -> None:
    for row in range(1, len(table)):
        shared = rng.integers(table.shape[1])
        table[row, :shared] = table[rng.integers(row), :shared]


def comb(table: Int32, _: np.random.Generator) -> None:
    """Every sequence goes on a little longer with the one before: as deep a tree as there is."""
    for row in range(1, len(table)):
        shared = table.shape[1] * row // len(table)
        table[row, :shared] = table[row - 1, :shared]


PATTERNS: list[Callable[[Int32, np.random.Generator], None]] = [
    nothing,
    one_prefix,
    almost_all,
    two_levels,
    random_tree,
    comb,
]


def batch(pattern: Callable[[Int32, np.random.Generator], None], count: int, context: int) -> tuple[Int32, Int32]:
    rng = np.random.default_rng(0)
    blocks = context // BLOCK
    table = (1 + rng.permutation(count * blocks)).astype(np.int32).reshape(count, blocks)
    pattern(table, rng)
    room = context // 20  # to grow, and for tails of different lengths
    return table, rng.integers(context - room, context - room // 2, count).astype(np.int32)


def measure(table: Int32, lengths: Int32, mode: DecodeMode, repeats: int) -> tuple[DecodePlan, float, float]:
    """A plan, and the median CPU seconds of one anew and of one with only its ends moved."""
    anew, moved = [], []
    for _ in range(repeats):
        planner = DecodePlanner(BLOCK, 32, 8, 128, vector_bytes=256, mode=mode)
        began = time.thread_time()
        plan = first = planner.plan(table, lengths)
        anew.append(time.thread_time() - began)
        for step in range(1, 21):
            began = time.thread_time()
            plan = planner.plan(table, lengths + step)
            seconds = time.thread_time() - began
            if plan.query_index is first.query_index:
                moved.append(seconds)
            first = plan
    return plan, statistics.median(anew), statistics.median(moved)


def peak(table: Int32, lengths: Int32, mode: DecodeMode) -> int:
    tracemalloc.start()
    DecodePlanner(BLOCK, 32, 8, 128, vector_bytes=256, mode=mode).plan(table, lengths)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="also 1,024 sequences of 131,072 tokens")
    print(machine())
    sizes = [(64, 4096, 100), (256, 16_384, 10)] + ([(1024, 131_072, 3)] if parser.parse_args().large else [])
    for count, context, repeats in sizes:
        print(f"\n{count} sequences of {context:,} tokens")
        print(
            f"{'sharing':12} {'mode':13} {'flat reads':>10} {'anew':>10} {'ends moved':>11} {'ratio':>6} {'memory':>8}"
        )
        for pattern in PATTERNS:
            table, lengths = batch(pattern, count, context)
            for mode in get_args(DecodeMode):
                plan, anew, moved = measure(table, lengths, mode, repeats)
                print(
                    f"{pattern.__name__:12} {mode:13} {plan.flat_tokens / plan.tokens_read:8.1f} x {anew * 1e3:7.3f} ms "
                    f"{moved * 1e3:8.3f} ms {anew / moved:6.1f} {peak(table, lengths, mode) / table.nbytes:6.1f} x"
                )


if __name__ == "__main__":
    main()
