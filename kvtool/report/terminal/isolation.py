"""The terminal's lines about tenants: what keeping them apart costs, and what they can tell of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.money_lines import told_money
from kvtool.results.isolation import Isolation
from kvtool.text.terminal.console import put, sanitize, say
from kvtool.text.terminal.numbers import duration, plural
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_MOST_PAIRS = 5


def print_isolation(console: Console, told: Isolation, plain: bool) -> None:
    """The price of isolation, and the pairs that see most of each other."""
    put(console, f"  {plural(told.tenants, 'tenant')} in one cache, and kept apart", "bold")
    cost = f", {told_money(told.cost, 'USD')} more" if told.cost is not None else ""
    apart = f"{told.lost_tokens:,} less{cost}" if told.lost_tokens else "as many"
    times = ""
    if told.predicted_ttft is not None and told.isolated_ttft is not None:
        times = f"; predicted TTFT p50 {duration(told.predicted_ttft)}, then {duration(told.isolated_ttft)}"
    each = f"with a salt or key each {told.isolated_hit_tokens:,}: {apart}{times}"
    say(console, f"{told.shared_hit_tokens:,} tokens hit; {each}", indent=4)
    say(console, f"with the salt only behind what all of them send {told.behind_public_hit_tokens:,}", indent=4)
    if not told.pairs:
        return
    columns = (Column("Sent first by", "<"), Column("hit by", "<"), Column("tokens"))
    rows = [
        (sanitize(pair.owner, ascii_only=plain), sanitize(pair.reader, ascii_only=plain), f"{pair.tokens:,}")
        for pair in told.pairs[:_MOST_PAIRS]
    ]
    put_table(console, columns, rows)
