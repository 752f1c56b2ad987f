"""The page's section of money: the same lines and tables as in the terminal."""

from __future__ import annotations

from kvtool.report.views.section import Cell, Section, Table, TableColumn
from kvtool.report.words.money_lines import money_view
from kvtool.results.report import Report


def money_section(report: Report, prefix: str) -> Section | None:
    """What was reported, predicted and paid; None where the report has none of it."""
    view = money_view(report)
    if view is None:
        return None
    columns: tuple[TableColumn, ...] = (
        TableColumn("What"),
        TableColumn("Hit rate", "number"),
        TableColumn("Cost", "number"),
        TableColumn("Of it"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            line.label,
            line.rate,
            f"{line.verb} {line.amount}".strip(),
            " · ".join(part for part in (line.by, *line.parts) if part),
        )
        for line in view.lines
    ]
    if not any(line.amount for line in view.lines):
        columns, rows = (*columns[:2], columns[3]), [(*row[:2], row[3]) for row in rows]
    tables = [Table("Reported, predicted and paid", columns, rows)]
    for table in view.tables:
        last = len(table.columns) - 1
        kinds = ["" if at == 0 or (at == last and table.prose) else "number" for at in range(last + 1)]
        heads = tuple(
            TableColumn(name, kind) if kind else TableColumn(name)
            for name, kind in zip(table.columns, kinds, strict=True)
        )
        tables.append(Table(table.title, heads, [tuple(row) for row in table.rows]))
    return Section(f"{prefix}-money", view.title, tables=tables, notes=view.notes)
