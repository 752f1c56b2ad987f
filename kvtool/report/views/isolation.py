"""The cost of isolating tenants, and what they can learn about each other."""

from __future__ import annotations

from kvtool.report.views.money import shown_amount
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import duration, plural

_MOST_PAIRS = 5


def view(report: Report) -> Section | None:
    """Return the price of isolation, the tenants that reuse most of each other's prompts, and the lines that they share."""
    found = report.isolation
    if found is None:
        return None
    cost = f", {shown_amount(found.cost, 'USD')} more" if found.cost is not None else ""
    apart = f"{found.lost_tokens:,} less{cost}" if found.lost_tokens else "as many"
    times = ""
    if found.predicted_ttft is not None and found.isolated_ttft is not None:
        times = f"; predicted TTFT p50 {duration(found.predicted_ttft)}, then {duration(found.isolated_ttft)}"
    each = f"with a salt or key each {found.isolated_hit_tokens:,}: {apart}{times}"
    tokens = TableColumn("tokens", "number")
    pairs = [(pair.owner, pair.reader, f"{pair.tokens:,}") for pair in found.pairs[:_MOST_PAIRS]]
    lines = [(f"{line.path}:{line.line}", f"{line.tokens:,}") for line in found.lines[:_MOST_PAIRS]]
    tables = (
        Table("Who hits what another sent", (TableColumn("Sent first by"), TableColumn("hit by"), tokens), pairs),
        Table("Where it stands", (TableColumn("Line"), tokens), lines, only="pages"),
    )
    return Section(
        "tenants",
        f"{plural(found.tenants, 'tenant')} in one cache, and kept apart",
        lead=(
            f"{found.shared_hit_tokens:,} tokens hit; {each}",
            f"with the salt only behind what all of them send {found.behind_public_hit_tokens:,}",
        ),
        tables=[table for table in tables if table.rows],
    )
