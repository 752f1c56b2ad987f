"""Block alignment: the part of shared prefixes that fills whole blocks."""

from __future__ import annotations

from kvtool.report.views.boundaries import boundary_hint
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.report import Group, Report
from kvtool.text.terminal.numbers import percent

_MOST_GROUPS = 40
_COLUMNS = (
    TableColumn("Block alignment (tokens)", cut=True),
    TableColumn("Shared prefix", "number"),
    TableColumn("Whole blocks", "number", keep=1),
    TableColumn("Remainder", "number"),
    TableColumn("Lost in partial blocks", "number", "lost"),
)


def view(report: Report) -> Section:
    """Return a row for each group, and what blocks of another size would cost."""
    rows = [_row(group) for group in report.groups[:_MOST_GROUPS]]
    hint = boundary_hint(report.boundaries)
    table = Table("Block alignment", _COLUMNS, rows, more=len(report.groups) - len(rows))
    return Section("alignment", table.caption, tables=[table], notes=(hint,) if hint is not None else ())


def _row(group: Group) -> tuple[str, ...]:
    found = group.alignment
    share = percent(found.lost_tokens / group.prompt_tokens) if group.prompt_tokens else "0.0%"
    return (
        group.name,
        f"{found.shared_prefix_tokens:,}",
        f"{found.whole_blocks:,}",
        f"{found.left_over_tokens:,}",
        f"{found.lost_tokens:,} {share:>6}",
    )
