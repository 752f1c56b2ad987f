"""The page's section of tenants: the same sentences and pairs as in the terminal, and the lines of source."""

from __future__ import annotations

from kvtool.report.html.page_parts import Section, Table, TableColumn
from kvtool.report.words.isolation_lines import isolation_view
from kvtool.results.report import Report


def tenants_section(report: Report, prefix: str) -> Section | None:
    """What keeping tenants apart costs; None where the report has none of it."""
    if report.isolation is None:
        return None
    view = isolation_view(report.isolation)
    tables = [
        Table(
            table.title,
            (*(TableColumn(name) for name in table.columns[:-1]), TableColumn(table.columns[-1], "number")),
            [tuple(row) for row in table.rows],
        )
        for table in (view.pairs, view.sources)
        if table is not None
    ]
    return Section(f"{prefix}-tenants", view.title, lead=view.lines, tables=tables)
