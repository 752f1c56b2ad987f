"""What `kvtool what-if` prints: what the requests can hit at most, then a row for each setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.accounting.caches.cache_rules import lifetime
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.console import ascii_only, bar, draws_bars, fold, is_plain, pack, put, sanitize
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 24
_NAMES = {"lru": "LRU", "fifo": "FIFO", "lfu": "LFU", "sieve": "SIEVE", "s3fifo": "S3-FIFO", "arc": "ARC", "opt": "OPT"}


def print_what_if(console: Console, document: WhatIfDocument) -> None:
    """The answer first: how much can be hit, and what of the rows comes near it."""
    plain = ascii_only(console)
    head = [
        f"kvtool what-if {sanitize(document.input, ascii_only=plain)}",
        f"{document.rules} rules",
        f"block {document.block_size:,}",
        f"{document.requests:,} requests",
    ]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    for note in document.notes:
        for line in fold(f"  {note}", console.width, indent=4):
            put(console, line, "dim")
    put(console)
    for line in fold(f"  {_answer(document)}", console.width, indent=4):
        put(console, line, "bold")
    put(console)
    rows = document.rows
    titles, cells = _settings(rows)
    bars = draws_bars(console) and not is_plain(console)
    columns = [
        *(Column(title, keep=None) for title in titles),
        Column("hit rate"),
        *([Column("", "<", keep=0, drawing=True)] if bars else []),
        Column("hit blocks", keep=1),
        Column("sure?", "<", keep=2),
    ]
    table = [
        [
            *setting,
            percent(row.hit_rate),
            *([bar(row.hit_rate, _BAR, plain)] if bars else []),
            f"{row.hit_blocks:,.0f}",
            _sure(row, plain=plain),
        ]
        for row, setting in zip(rows, cells, strict=True)
    ]
    put_table(console, columns, table)
    put(console)
    for line in fold(f"  {_legend(document)}", console.width, indent=4):
        put(console, line, "dim")


def _answer(document: WhatIfDocument) -> str:
    reachable = percent(document.reachable_hit_rate)
    most = f"An unlimited cache hits {reachable} of {document.references:,} blocks"
    axis = document.rows[0].axis if document.rows else "capacity"
    if axis == "capacity":
        enough = next((r for r in document.rows if r.hit_rate >= 0.95 * document.reachable_hit_rate), None)
        if enough is not None and enough.capacity is not None:
            tokens = enough.capacity * document.block_size
            return f"{most}; {enough.capacity:,} blocks ({tokens:,} tokens) hit 95 % of that or more."
    if axis == "policy":
        told = _where_policies_differ(document.rows)
        return f"{most}; {told}." if told else f"{most}."
    return f"{most}."


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
    words = f"with {capacity:,} {_NAMES[first.policy or 'lru']} hits {percent(first.hit_rate)}"
    words += f", {_NAMES[last.policy or 'lru']} {percent(last.hit_rate)}"
    bound = next((row for row in by_capacity[capacity] if row.sure == "bound"), None)
    return words if bound is None else f"{words}, no policy more than {percent(bound.hit_rate)}"


def _settings(rows: list[SweepRow]) -> tuple[list[str], list[list[str]]]:
    """The columns that rows differ in, and their cells."""
    parts: list[tuple[str, list[str]]] = []
    if any(row.policy is not None for row in rows):
        parts.append(("policy", [_NAMES[row.policy] if row.policy else "" for row in rows]))
    if any(row.block_size is not None for row in rows):
        parts.append(("block", [f"{row.block_size:,}" if row.block_size else "" for row in rows]))
    if any(row.ttl_seconds is not None for row in rows):
        parts.append(("TTL", ["" if row.ttl_seconds is None else lifetime(row.ttl_seconds) for row in rows]))
    if any(row.capacity is not None for row in rows):
        parts.append(("blocks", [f"{row.capacity:,}" if row.capacity is not None else "unlimited" for row in rows]))
    return [title for title, _ in parts], [list(cells) for cells in zip(*(cells for _, cells in parts), strict=True)]


def _sure(row: SweepRow, *, plain: bool) -> str:
    if row.error is not None:
        return f"{'+-' if plain else '±'} {100 * row.error:.2f} points"
    return row.sure


def _legend(document: WhatIfDocument) -> str:
    axis = document.rows[0].axis if document.rows else "capacity"
    words = {
        "capacity": "one pass over the requests, one list of blocks, the least recently used go first",
        "policy": "requests whole, one after the other; OPT knows what comes, and no server can be told to follow it",
        "ttl": "unlimited room; a block that is not used for longer is gone",
        "block-size": "hit rate: of the prompt tokens; unlimited room, or the tokens of the capacity",
    }
    return words[axis]
