"""The answer of `kvtool what-if` in words, and the section of its changes."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.report.views.plans.what_if_answers import (
    ENOUGH,
    block_size_answer,
    routing_answer,
    split_answer,
    tier_answer,
    ttl_answer,
)
from kvtool.report.views.plans.what_if_rows import POLICIES, changes_table
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.choices import Axis
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import percent, plural

_ON_A_CLOCK = (
    "the requests at their own times, on the clock of a latency model; hit rate: of the blocks that are looked up; "
    "imbalance: prompt tokens computed by the replica that computed most, over the mean"
)
_RADIX = "requests whole, one after the other, through SGLang's own tree; a run for each row"
_LEGENDS: dict[Axis, str] = {
    "capacity": "one pass over the requests, one list of blocks, the least recently used go first",
    "policy": "requests whole, one after the other; OPT knows what comes, and no server can be told to follow it",
    "ttl": "unlimited room; a block that is not used for longer is gone",
    "tier": "hit rate: of the GPU's own blocks; loaded: those that come from below instead of being computed; bandwidth: from "
    "host memory to the GPU",
    "pd": "mixed: as many replicas, which do both; the first token comes with the prefill, the second after the transfer; "
    "predicted: run on a clock that the latency model drives",
    "block-size": "hit rate: of the prompt tokens; unlimited room, or the tokens of the capacity",
    "routing": _ON_A_CLOCK,
    "replicas": _ON_A_CLOCK,
}


def heading(document: WhatIfDocument) -> list[str]:
    """Return what was counted, in parts."""
    return [
        f"{document.rules} rules",
        f"block {document.block_size:,}",
        plural(document.requests, "request"),
    ]


def changes(document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """Return what could be changed, today's row first, then the best; and what was not tried."""
    lead = "Each row is the same requests with one thing changed: today first, then the best, bounds last."
    tables = [changes_table(rows)]
    if document.missing:
        columns = (TableColumn("Change"), TableColumn("Why", "prose"))
        tables.append(Table("Not in the table", columns, [(row.change, row.why) for row in document.missing]))
    return Section(
        "changes", "What could be changed", (lead,), tables, notes=(f"How it was counted: {_legend_of_changes(rows)}.",)
    )


def answer(document: WhatIfDocument) -> str:
    """Return how much can be hit, and which row comes near it."""
    if document.answer:
        return " ".join(line for line in document.answer if not line.startswith("Run: "))
    reachable = percent(document.reachable_hit_rate)
    most = f"An unlimited cache hits {reachable} of {document.references:,} blocks"
    axis = document.rows[0].axis if document.rows else "capacity"
    if axis == "capacity":
        enough = enough_row(document)
        if enough is not None and enough.capacity is not None:
            tokens = enough.capacity * document.block_size
            return f"{most}; {enough.capacity:,} blocks ({tokens:,} tokens) hit 95% of that or more."
    if axis == "tier":
        return f"{tier_answer(document.rows, document.block_size)}. {most}."
    if axis == "pd":
        return f"{split_answer(document.rows)}."
    if axis in ("routing", "replicas"):
        return routing_answer(document.rows) or f"{most}."
    if axis == "policy":
        told = _where_policies_differ(document.rows)
        return f"{most}; {told}." if told else f"{most}."
    best = ttl_answer(document.rows, document.reachable_hit_rate) or block_size_answer(document.rows)
    return f"{best}. {most}." if best else f"{most}."


def enough_row(document: WhatIfDocument) -> SweepRow | None:
    """Return the first row of a capacity that hits most of what can be hit; None where none does."""
    return next((row for row in document.rows if row.hit_rate >= ENOUGH * document.reachable_hit_rate), None)


def _where_policies_differ(rows: list[SweepRow]) -> str:
    """Return the capacity at which the choice of a policy counts most, with the best, the worst and the bound there."""
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


def legend(document: WhatIfDocument) -> str:
    """Return how the rows were counted."""
    axis = document.rows[0].axis if document.rows else "capacity"
    if axis == "capacity" and document.rules == "sglang":
        return _RADIX
    return _legend_of_changes(document.rows) if axis is None else _LEGENDS[axis]


def _legend_of_changes(rows: Sequence[SweepRow]) -> str:
    words = [
        "run it: the command that was given, with these flags",
        "hit rate: of the prompt tokens, in sweeps of the blocks that are looked up",
        "computed: prompt tokens that do not hit, beside today's",
    ]
    if any(row.sure == "bound" for row in rows):
        words.append("bound: nobody can reach it for certain")
    if any(row.host_blocks for row in rows):
        words.append(
            "host tier: memory of each replica, which is no GPU; what is loaded from it is no hit, and not computed"
        )
    if any(row.prefill_replicas for row in rows) and any(row.gpus for row in rows):
        words.append("GPUs: not sought for a split fleet")
    if any(row.sure == "predicted" for row in rows):
        words.append("predicted: run on a clock that the latency model drives")
    return "; ".join(words)
