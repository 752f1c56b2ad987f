"""Round numbers for axes."""

from __future__ import annotations


def round_ticks(last: int, most: int) -> list[int]:
    """0 and at most `most` round numbers up to `last`, in equal steps."""
    return list(range(0, last + 1, round_step(last, most)))


def round_step(last: int, most: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50… of which at most `most` fit into `last`."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if last <= step * factor * most:
                return step * factor
        step *= 10
