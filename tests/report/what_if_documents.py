"""Documents of what-if with rows of every axis, as tests of pages and formats draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvtool.results.documents.what_if import SweepRow, WhatIfDocument


def document(rows: list[SweepRow], **fields: Any) -> WhatIfDocument:
    """Of 1,000 blocks that are looked up 400 can be hit."""
    told: dict[str, Any] = {
        "schema": "kvtool.what-if/1",
        "input": "traffic.jsonl",
        "rules": "vllm",
        "block_size": 16,
        "requests": 50,
        "references": 1000,
        "distinct_blocks": 600,
        "reachable_blocks": 400,
        "reachable_hit_rate": 0.4,
        "sampled": 1.0,
        "notes": [],
    }
    return WhatIfDocument(rows=rows, **(told | fields))


def row(axis: str, rate: float, **fields: Any) -> SweepRow:
    """A row of an axis that hits this part of the references."""
    told: dict[str, Any] = {"references": 1000, "hit_blocks": 1000 * rate, "hit_rate": rate, "sure": "exact"}
    return SweepRow.model_validate({"axis": axis, **told, **fields})


def capacity(**fields: Any) -> WhatIfDocument:
    """A curve in steps of two, with today's room and the memory of a block."""
    rates = (0.02, 0.05, 0.11, 0.2, 0.31, 0.39, 0.4)
    rows = [row("capacity", rate, capacity=10 * 2**step) for step, rate in enumerate(rates)]
    return document(rows, **({"capacity": 100, "bytes_per_block": 2 << 20} | fields))


def sampled() -> WhatIfDocument:
    """The same from a tenth of the blocks, with errors."""
    rows = [
        one.model_copy(update={"error": 0.03 if one.hit_rate > 0.03 else 0.05, "sure": "sampled"})
        for one in capacity().rows
    ]
    return document(rows, sampled=0.1, notes=["2 requests that their server refused or failed are left out"])


def policies() -> WhatIfDocument:
    """All seven at three capacities."""
    rows = [
        row("policy", rate + step / 100, policy=policy, capacity=size, sure="bound" if policy == "opt" else "exact")
        for size, rate in ((10, 0.05), (100, 0.2), (1000, 0.3))
        for step, policy in enumerate(("lru", "fifo", "lfu", "sieve", "s3fifo", "arc", "opt"))
    ]
    return document(rows, capacity=50)


def one_capacity() -> WhatIfDocument:
    """Policies where there is nothing to go along."""
    return document([one for one in policies().rows if one.capacity == 100])


def ttls() -> WhatIfDocument:
    """From half a minute to a day."""
    seconds = (30.0, 60.0, 300.0, 3600.0, 86400.0)
    return document([row("ttl", 0.08 * step, ttl_seconds=each) for step, each in enumerate(seconds)])


def block_sizes() -> WhatIfDocument:
    """Unlimited, and with the room of 3,200 tokens."""
    rows = [
        row("block-size", (0.4 if room is None else 0.2) - 0.03 * step, block_size=16 << step, capacity=held)
        for step in range(5)
        for room, held in ((None, None), (3200, 3200 // (16 << step)))
    ]
    return document(rows)


CASES: dict[str, Callable[[], WhatIfDocument]] = {
    "capacity": capacity,
    "sampled": sampled,
    "policies": policies,
    "one_capacity": one_capacity,
    "ttls": ttls,
    "block_sizes": block_sizes,
    "one_row": lambda: capacity().model_copy(update={"rows": capacity().rows[:1]}),
    "no_rows": lambda: document([]),
}
