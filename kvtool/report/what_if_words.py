"""What `kvtool what-if` found in words, the same in every format."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.caches.cache_rules import lifetime
from kvtool.report.what_if_fleet_words import bandwidth_words, split_answer, split_words, tier_answer
from kvtool.results.choices import Axis
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import percent, plural

POLICIES = {
    "lru": "LRU",
    "fifo": "FIFO",
    "lfu": "LFU",
    "sieve": "SIEVE",
    "s3fifo": "S3-FIFO",
    "arc": "ARC",
    "opt": "OPT",
}
"""Policies as papers write them."""
ENOUGH = 0.95
"""Of what can be hit at all: where a larger cache is hardly worth its memory."""
_LEGENDS: dict[Axis, str] = {
    "capacity": "one pass over the requests, one list of blocks, the least recently used go first",
    "policy": "requests whole, one after the other; OPT knows what comes, and no server can be told to follow it",
    "ttl": "unlimited room; a block that is not used for longer is gone",
    "tier": "hit rate: of the GPU's own blocks; loaded: those that come from below instead of being computed; link: from host "
    "memory to the GPU",
    "pd": "as many replicas in each row; the first token comes with the prefill, the second after the transfer; predicted: run on "
    "a clock that the latency model drives",
    "block-size": "hit rate: of the prompt tokens; unlimited room, or the tokens of the capacity",
}


def heading(document: WhatIfDocument) -> list[str]:
    """What was counted, in parts."""
    return [
        f"{document.rules} rules",
        f"block {document.block_size:,}",
        plural(document.requests, "request"),
    ]


def answer(document: WhatIfDocument) -> str:
    """How much can be hit, and what of the rows comes near it."""
    reachable = percent(document.reachable_hit_rate)
    most = f"An unlimited cache hits {reachable} of {document.references:,} blocks"
    axis = document.rows[0].axis if document.rows else "capacity"
    if axis == "capacity":
        enough = enough_row(document)
        if enough is not None and enough.capacity is not None:
            tokens = enough.capacity * document.block_size
            return f"{most}; {enough.capacity:,} blocks ({tokens:,} tokens) hit 95 % of that or more."
    if axis == "tier":
        return f"{tier_answer(document.rows)}. {most}."
    if axis == "pd":
        return f"{split_answer(document.rows)}."
    if axis == "policy":
        told = _where_policies_differ(document.rows)
        return f"{most}; {told}." if told else f"{most}."
    return f"{most}."


def enough_row(document: WhatIfDocument) -> SweepRow | None:
    """The first row of a capacity that hits most of what can be hit; None where none does."""
    return next((row for row in document.rows if row.hit_rate >= ENOUGH * document.reachable_hit_rate), None)


def _where_policies_differ(rows: list[SweepRow]) -> str:
    """The capacity at which the choice of a policy counts most, and what the best and the bound hit there."""
    by_capacity: dict[int, list[SweepRow]] = {}
    for row in rows:
        by_capacity.setdefault(row.capacity or 0, []).append(row)
    gains: list[tuple[float, int]] = []
    for capacity, tried in by_capacity.items():
        rates = [row.hit_rate for row in tried if row.sure != "bound"]
        if len(rates) > 1:
            gains.append((max(rates) - min(rates), capacity))
    if not gains:
        return ""
    _, capacity = max(gains)
    real = sorted((row for row in by_capacity[capacity] if row.sure != "bound"), key=lambda row: -row.hit_rate)
    first, last = real[0], real[-1]
    words = f"with {capacity:,} {POLICIES[first.policy or 'lru']} hits {percent(first.hit_rate)}"
    words += f", {POLICIES[last.policy or 'lru']} {percent(last.hit_rate)}"
    bound = next((row for row in by_capacity[capacity] if row.sure == "bound"), None)
    return words if bound is None else f"{words}, no policy more than {percent(bound.hit_rate)}"


def settings(rows: Sequence[SweepRow]) -> tuple[list[str], list[list[str]]]:
    """The columns that rows differ in, and their cells."""
    parts: list[tuple[str, list[str]]] = []
    if any(row.axis == "tier" for row in rows):
        return _tier_settings(rows)
    if any(row.axis == "pd" for row in rows):
        links = ["" if row.prefill_replicas is None else bandwidth_words(row.bandwidth) for row in rows]
        return ["prefill + decode", "link"], [[split_words(row), link] for row, link in zip(rows, links, strict=True)]
    if any(row.policy is not None for row in rows):
        parts.append(("policy", [POLICIES[row.policy] if row.policy else "" for row in rows]))
    if any(row.block_size is not None for row in rows):
        parts.append(("block", [f"{row.block_size:,}" if row.block_size else "" for row in rows]))
    if any(row.ttl_seconds is not None for row in rows):
        parts.append(("TTL", ["" if row.ttl_seconds is None else lifetime(row.ttl_seconds) for row in rows]))
    if any(row.capacity is not None for row in rows):
        parts.append(("blocks", [f"{row.capacity:,}" if row.capacity is not None else "unlimited" for row in rows]))
    return [title for title, _ in parts], [[cells[place] for _, cells in parts] for place in range(len(rows))]


def _tier_settings(rows: Sequence[SweepRow]) -> tuple[list[str], list[list[str]]]:
    """Blocks of each level, and the bandwidths that rows have."""
    parts = [
        ("GPU", [f"{row.capacity or 0:,}" for row in rows]),
        ("host", [f"{row.host_blocks or 0:,}" for row in rows]),
    ]
    if any(row.disk_blocks for row in rows):
        parts.append(("disk", [f"{row.disk_blocks or 0:,}" for row in rows]))
    if rows[0].ttft_p99 is not None:
        parts.append(("link", [bandwidth_words(row.bandwidth) if row.host_blocks else "" for row in rows]))
    return [title for title, _ in parts], [[cells[place] for _, cells in parts] for place in range(len(rows))]


def how_sure(row: SweepRow, *, plain: bool = False) -> str:
    """Counted, told from a sample with its error, predicted or a bound."""
    if row.error is not None:
        return f"{'+-' if plain else '±'} {100 * row.error:.2f} points"
    return row.sure


def legend(document: WhatIfDocument) -> str:
    """How the rows were counted."""
    axis = document.rows[0].axis if document.rows else "capacity"
    return _LEGENDS[axis or "capacity"]
