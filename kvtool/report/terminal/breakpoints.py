"""Breakpoints for a provider's cache, in the terminal and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvtool.profiler.optimize.breakpoint_plan import MINIMUM, READ, WRITE, BreakpointPlan, Placement
from kvtool.text.terminal.console import fold, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, table

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = (Column("", "<"), Column("cost, tokens"), Column("of no caching"))


def print_breakpoints(console: Console, plans: Sequence[BreakpointPlan], *, plain: bool) -> None:
    """For each group the cheapest placement against none and the usual one."""
    put(console)
    put(console, "  Breakpoints (cache_control): computed, not run", "bold")
    if not plans:
        say(console, "no request has messages: there is nothing to set them in")
        return
    note = (
        f"prices of a token: read {READ:g}, write {WRITE:g}, else 1; at least {MINIMUM:,} tokens; nothing is forgotten"
    )
    say(console, note)
    for plan in plans:
        put(console)
        name = sanitize(plan.group, ascii_only=plain)
        put(console, f"  {name}: the first {plural(plan.requests, 'request')}")
        rows = [
            ("no caching", f"{plan.tokens:,}", percent(1.0)),
            ("last system block and last message", *_costs(plan, plan.naive)),
            ("best", *_costs(plan, plan.best)),
        ]
        for line in table(_COLUMNS, rows, console.width, indent=4, ascii_only=plain):
            put(console, line)
        where = "; ".join(plan.best.where) or "none: caching costs more than it saves"
        for line in fold(f"    set them: {sanitize(where, ascii_only=plain)}", console.width, indent=6):
            put(console, line)


def _costs(plan: BreakpointPlan, placement: Placement) -> tuple[str, str]:
    return f"{placement.cost:,.0f}", percent(placement.cost / plan.tokens) if plan.tokens else "-"


def breakpoints_json(plans: Sequence[BreakpointPlan]) -> dict[str, Any]:
    """Costs in tokens at the full price; `after_blocks` are numbers of content blocks, from 1."""
    return {
        "computed": True,
        "prices": {"read": READ, "write": WRITE, "outside": 1.0},
        "minimum_tokens": MINIMUM,
        "groups": [
            {
                "name": plan.group,
                "requests": plan.requests,
                "cost": {"no_caching": plan.tokens, "naive": plan.naive.cost, "best": plan.best.cost},
                "best": _placement(plan.best),
                "naive": _placement(plan.naive),
            }
            for plan in plans
        ],
    }


def _placement(placement: Placement) -> dict[str, Any]:
    return {"after_blocks": list(placement.marks), "last_message": placement.last, "where": list(placement.where)}
