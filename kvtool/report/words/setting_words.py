"""What sweeps of times to live and of block sizes found in words: the first value that loses nothing worth its price."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.caches.cache_rules import lifetime
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import percent, plural

ENOUGH = 0.95
"""Of what can be hit at all: where more is hardly worth its price."""


def ttl_answer(rows: Sequence[SweepRow], reachable: float) -> str:
    """The shortest time that keeps most of what an unlimited cache hits; empty where no row has a time."""
    tried = sorted(((row.ttl_seconds, row) for row in rows if row.ttl_seconds is not None), key=lambda each: each[0])
    if not tried:
        return ""
    (shortest, first), (longest, last) = tried[0], tried[-1]
    if len(tried) > 1 and percent(first.hit_rate) == percent(last.hit_rate):
        times = f"from {lifetime(shortest)} to {lifetime(longest)}"
        return f"The time to live changes nothing {times}: hit rate {percent(first.hit_rate)}"
    enough = next(((ttl, row) for ttl, row in tried if row.hit_rate >= ENOUGH * reachable), None)
    if enough is None:
        return (
            f"No time to live that was tried is enough: the longest, {lifetime(longest)}, hits {percent(last.hit_rate)}"
        )
    ttl, row = enough
    return f"{lifetime(ttl)} is enough: hit rate {percent(row.hit_rate)}"


def block_size_answer(rows: Sequence[SweepRow]) -> str:
    """The size that hits most, and the largest that keeps most of that; of several rooms in the largest. Empty without rows."""
    sizes = [(row.block_size, row) for row in rows if row.block_size is not None]
    if not sizes:
        return ""
    unlimited = any(row.capacity is None for _, row in sizes)
    room = None if unlimited else max(size * (row.capacity or 0) for size, row in sizes)
    tried = [
        (size, row)
        for size, row in sizes
        if (row.capacity is None if room is None else size * ((row.capacity or 0) + 1) > room)
    ]
    within = "" if room is None else f" with room for {plural(room, 'token')}"
    smallest, largest = min(size for size, _ in tried), max(size for size, _ in tried)
    rates = {percent(row.hit_rate) for _, row in tried}
    if len(rates) == 1 and smallest < largest:
        span = f"from {smallest:,} to {largest:,} tokens"
        return f"The block size changes nothing {span}{within}: {rates.pop()} of the prompts hit"
    size, best = max(tried, key=lambda each: (each[1].hit_rate, each[0]))
    told = f"Blocks of {plural(size, 'token')} hit most{within}, {percent(best.hit_rate)} of the prompts"
    widest, row = max((each for each in tried if each[1].hit_rate >= ENOUGH * best.hit_rate), key=lambda each: each[0])
    return told if widest <= size else f"{told}; {widest:,} lose little, {percent(row.hit_rate)}"
