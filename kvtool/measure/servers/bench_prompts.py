"""What `kvtool bench --server` sends: cold prompts of five lengths, and warm ones of five hit ratios."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

_LENGTHS = (0.1, 0.25, 0.5, 0.75, 1.0)
_RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9)
_REPEATS = 5
HELD_OUT = (2, 7)
"""Of the cases, the middle ones of both kinds: the calibration's constants are not fitted to them."""
_FIRST_ID, _LAST_ID = 100, 250
"""Tokens that every vocabulary has, one of bytes, too; what they say does not matter."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """Token ids, how many of them the prompt before it begins with, too, and its case; None: it only fills the cache."""

    tokens: Sequence[int]
    shared: int
    case: int | None


def bench_prompts(longest: int, seed: int) -> list[BenchPrompt]:
    """In an order in which nothing that grows with time falls together with a length.

    Before each warm prompt stands one that has its beginning, so that nothing evicts it.
    """
    rng = random.Random(seed)  # noqa: S311 - prompts that are the same in each run, nothing secret

    def some(count: int) -> list[int]:
        return [rng.randrange(_FIRST_ID, _LAST_ID) for _ in range(count)]

    found: list[list[BenchPrompt]] = []
    for _ in range(_REPEATS):
        found += [[BenchPrompt(some(int(longest * part)), 0, case)] for case, part in enumerate(_LENGTHS)]
        for case, ratio in enumerate(_RATIOS, start=len(_LENGTHS)):
            first = some(longest)
            shared = int(longest * ratio)
            found.append(
                [BenchPrompt(first, 0, None), BenchPrompt([*first[:shared], *some(longest - shared)], shared, case)]
            )
    rng.shuffle(found)
    warm_up = BenchPrompt(some(longest), 0, None)
    return [warm_up, *(prompt for pair in found for prompt in pair)]
