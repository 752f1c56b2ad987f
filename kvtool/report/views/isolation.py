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
    cost = f", costs {shown_amount(found.cost, 'USD')} more" if found.cost is not None else ""
    apart = f" ({found.lost_tokens:,} fewer{cost})" if found.lost_tokens else ""
    times = ""
    if found.predicted_ttft is not None and found.isolated_ttft is not None:
        times = (
            f"Predicted TTFT p50: {duration(found.predicted_ttft)} shared, {duration(found.isolated_ttft)} isolated."
        )
    tokens = TableColumn("tokens", "number")
    pairs = [(pair.owner, pair.reader, f"{pair.tokens:,}") for pair in found.pairs[:_MOST_PAIRS]]
    lines = [(f"{line.path}:{line.line}", f"{line.tokens:,}") for line in found.lines[:_MOST_PAIRS]]
    tables = (
        Table("Reuse between tenants", (TableColumn("Sent first by"), TableColumn("hit by"), tokens), pairs),
        Table("Lines that tenants share", (TableColumn("Line"), tokens), lines, only="pages"),
    )
    return Section(
        "tenants",
        f"{plural(found.tenants, 'tenant')}: one shared cache or isolated",
        lead=(
            f"Hit tokens in one shared cache: {found.shared_hit_tokens:,}.",
            f"With a salt or key for each tenant: {found.isolated_hit_tokens:,}{apart}.",
            f"With the salt after the text that all tenants send: {found.behind_public_hit_tokens:,}.",
            *((times,) if times else ()),
        ),
        tables=[table for table in tables if table.rows],
    )
