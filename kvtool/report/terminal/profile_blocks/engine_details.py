"""The engine's details in the terminal, below a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.terminal.render import print_section
from kvtool.report.views.order import ENGINE, sections
from kvtool.results.report import Report
from kvtool.text.terminal.console import is_plain, put, put_field
from kvtool.text.terminal.numbers import percent

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = 13


def print_details(console: Console, report: Report, plain: bool) -> None:
    """Print a rule, the mean of hit rates, and the blocks of the engine."""
    if not is_plain(console):
        put(console, ("-" if plain else "─") * console.width, "dim")
    rate = percent(report.totals.mean_request_hit_rate)
    text = "mean of the requests' own hit rates"
    put_field(console, "Per request", rate, text, size=_LABEL, hang=_LABEL + 2)
    for section in sections(ENGINE, report, "terminal"):
        put(console)
        print_section(console, section)
