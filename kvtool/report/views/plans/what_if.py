"""The answer of `kvtool what-if` in words, and the section of its changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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
from kvtool.results.documents.what_if import HOSTED_RULES, SweepRow, WhatIfDocument
from kvtool.results.next_step import command_of
from kvtool.text.terminal.numbers import percent, plural

_ON_A_CLOCK = (
    "Requests run at their arrival times, on the clock of a latency model. Hit rate: share of the looked-up blocks. "
    "Imbalance: prompt tokens computed by the busiest replica, divided by the mean."
)
_RADIX = "Each row is one run through SGLang's own radix tree, one request at a time."
_LEGENDS: dict[Axis, str | dict[str, str]] = {
    "capacity": "One request at a time, with LRU eviction.",
    "policy": "One request at a time. OPT knows future requests, so it is an upper bound.",
    "ttl": "Unlimited cache. A block unused for longer than the TTL is evicted.",
    "tier": {
        "hit rate": "Hit rate: blocks in GPU memory.",
        "loaded": "Loaded: blocks copied from a lower tier instead of computed.",
        "bandwidth": "Bandwidth: from host memory to the GPU.",
    },
    "pd": "Mixed: as many replicas that do both. The first token comes with the prefill, the second after the transfer. "
    "Estimates by the latency model.",
    "block-size": "Hit rate: share of the prompt tokens. Unlimited cache, or the tokens of the capacity.",
    "routing": _ON_A_CLOCK,
    "replicas": _ON_A_CLOCK,
}


def heading(document: WhatIfDocument) -> list[str]:
    """Return what was counted, in parts."""
    if document.rules == HOSTED_RULES:
        return ["providers' rules", plural(document.requests, "request")]
    return [
        f"{document.rules} rules",
        f"block {document.block_size:,}",
        plural(document.requests, "request"),
    ]


def changes(document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """Return what could be changed, today's row first, then the best; and what was not tried."""
    lead = "Each row changes one thing for the same requests. Today comes first, then the best change; upper bounds are last."
    tables = [changes_table(rows)]
    if document.missing:
        columns = (TableColumn("Change"), TableColumn("Cause", "prose"))
        tables.append(Table("Not in the table", columns, not_tried(document)))
    return Section("changes", "Possible changes", (lead,), tables, notes=(_legend_of_changes(rows),))


def not_tried(document: WhatIfDocument) -> list[tuple[str, str]]:
    """Return the changes that are not in the table, those with one cause together, each with that cause."""
    by_cause: dict[str, list[str]] = {}
    for row in document.missing:
        by_cause.setdefault(row.why, []).append(row.change)
    return [(", ".join(changes), why) for why, changes in by_cause.items()]


def answer(document: WhatIfDocument) -> str:
    """Return how much can be hit, and which row comes near it."""
    if document.answer:
        return " ".join(line for line in document.answer if command_of(line) is None)
    reachable = percent(document.reachable_hit_rate)
    most = f"Maximum with an unlimited cache: {reachable} of {document.references:,} blocks"
    axis = document.rows[0].axis if document.rows else "capacity"
    if axis == "capacity":
        enough = enough_row(document)
        if enough is not None and enough.capacity is not None:
            tokens = enough.capacity * document.block_size
            return f"95% of the maximum needs {plural(enough.capacity, 'block')} ({tokens:,} tokens). {most}."
    if axis == "tier":
        return f"{tier_answer(document.rows, document.block_size)}. {most}."
    if axis == "pd":
        return f"{split_answer(document.rows)}."
    if axis in ("routing", "replicas"):
        return routing_answer(document.rows) or f"{most}."
    if axis == "policy":
        difference = _where_policies_differ(document.rows)
        return f"{difference}. {most}." if difference else f"{most}."
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
    words = f"With {capacity:,} blocks, {POLICIES[first.policy or 'lru']} hits {percent(first.hit_rate)}"
    words += f" and {POLICIES[last.policy or 'lru']} {percent(last.hit_rate)}"
    bound = next((row for row in by_capacity[capacity] if row.sure == "bound"), None)
    return words if bound is None else f"{words}; the upper bound is {percent(bound.hit_rate)}"


def legend(document: WhatIfDocument, titles: Collection[str] | None = None) -> str:
    """Return how the rows were counted. `titles` are those of the columns that are shown; None: all."""
    axis = document.rows[0].axis if document.rows else "capacity"
    if axis == "capacity" and document.rules == "sglang":
        return _RADIX
    if axis is None:
        return _legend_of_changes(document.rows, titles)
    words = _LEGENDS[axis]
    return words if isinstance(words, str) else " ".join(_of_columns(words, titles))


def _of_columns(words: Mapping[str, str], titles: Collection[str] | None) -> list[str]:
    """Return the sentences on columns that are shown."""
    return [text for title, text in words.items() if titles is None or title in titles]


def _legend_of_changes(rows: Sequence[SweepRow], titles: Collection[str] | None = None) -> str:
    if any(row.cost is not None for row in rows):
        computed = {"computed": "Computed: prompt tokens that are not read from the cache, relative to today."}
        estimated = any(row.sure == "predicted" for row in rows)
        if rows[0].sure != "rules":
            replayed = ["Estimate: by a replay of the reported gaps."] if estimated else []
            return " ".join([*replayed, *_of_columns(computed, titles)])
        return " ".join(
            [
                "Hit rate and cost: by the published rules and prices, each row from another run.",
                *(["Explicit caches: an estimate from what was reported and paid."] if estimated else []),
                *_of_columns(computed, titles),
                "Another model gives other answers.",
            ]
        )
    words = ["Run it: add these flags to the command."] if len(rows) > 1 else []
    columns = {
        "hit rate": "Hit rate: reused share of the prompt tokens.",
        "computed": "Computed: prompt tokens that are not reused, relative to today.",
    }
    if any(row.host_blocks for row in rows):
        columns["loaded"] = "Loaded: tokens copied from the host memory of each replica, neither hit nor computed."
    words += _of_columns(columns, titles)
    if any(row.prefill_replicas for row in rows) and any(row.gpus for row in rows):
        words.append("GPUs: not counted for a split fleet.")
    if any(row.sure == "bound" for row in rows):
        words.append("Upper bound: no real server is sure to reach it.")
    if any(row.sure == "predicted" for row in rows):
        words.append("Estimate: computed by the latency model.")
    return " ".join(words)
