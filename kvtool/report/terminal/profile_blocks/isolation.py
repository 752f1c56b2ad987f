"""The terminal's lines about tenants: what keeping them apart costs, and what they can tell of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.words.isolation_lines import isolation_view
from kvtool.results.isolation import Isolation
from kvtool.text.terminal.console import put, sanitize, say
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console


def print_isolation(console: Console, told: Isolation, plain: bool) -> None:
    """The price of isolation, and the pairs that see most of each other."""
    view = isolation_view(told)
    put(console, f"  {view.title}", "bold")
    for line in view.lines:
        say(console, line, indent=4)
    if view.pairs is None:
        return
    first, second, tokens = view.pairs.columns
    columns = (Column(first, "<"), Column(second, "<"), Column(tokens))
    put_table(console, columns, [[sanitize(cell, ascii_only=plain) for cell in row] for row in view.pairs.rows])
