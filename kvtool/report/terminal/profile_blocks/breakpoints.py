"""Breakpoints for a provider's cache in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.results.documents.optimize import Breakpoints
from kvtool.text.terminal.console import fold, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, table

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = (Column("", "<"), Column("cost, tokens"), Column("of no caching"))


def print_breakpoints(console: Console, breakpoints: Breakpoints, *, plain: bool) -> None:
    """For each group the cheapest placement against none and the usual one."""
    put(console)
    put(console, "  Breakpoints (cache_control): computed, not run", "bold")
    if not breakpoints.groups:
        say(console, "no request has messages: there is nothing to set them in")
        return
    prices = f"prices of a token: read {breakpoints.prices.read:g}, write {breakpoints.prices.write:g}, else 1"
    say(console, f"{prices}; at least {breakpoints.minimum_tokens:,} tokens; kept for 5 minutes")
    for plan in breakpoints.groups:
        put(console)
        name = sanitize(plan.name, ascii_only=plain)
        put(console, f"  {name}: the first {plural(plan.requests, 'request')}")
        rows = [
            ("no caching", f"{plan.cost.no_caching:,}", percent(1.0)),
            ("last system block and last message", *_cost(plan.cost.naive, plan.cost.no_caching)),
            ("best", *_cost(plan.cost.best, plan.cost.no_caching)),
        ]
        for line in table(_COLUMNS, rows, console.width, indent=4, ascii_only=plain):
            put(console, line)
        where = "; ".join(plan.best.where) or "none: caching costs more than it saves"
        for line in fold(f"    set them: {sanitize(where, ascii_only=plain)}", console.width, indent=6):
            put(console, line)


def _cost(cost: float, no_caching: int) -> tuple[str, str]:
    return f"{cost:,.0f}", percent(cost / no_caching) if no_caching else "-"
