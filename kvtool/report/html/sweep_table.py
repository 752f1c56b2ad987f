"""The rows of a sweep as a table of the page."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.report.views.section import Cell, Table, TableColumn
from kvtool.report.words.what_if_columns import columns, setting_of, settings
from kvtool.results.documents.what_if import SweepRow

_MOST_ROWS = 200
_MANY_ROWS = 40


def sweep_table(caption: str, rows: Sequence[SweepRow]) -> Table:
    """What rows differ in and what comes of it, in the order of the rows; folded where they are many."""
    shown = [column for column in columns(rows) if column.kind != "command"]
    cells: list[tuple[Cell, ...]] = [tuple(column.cell(row) for column in shown) for row in rows[:_MOST_ROWS]]
    return Table(
        caption,
        tuple(TableColumn(_capital(column.head), column.kind) for column in shown),
        cells,
        more=max(len(rows) - _MOST_ROWS, 0),
        folded=len(rows) > _MANY_ROWS,
    )


def row_commands(rows: Sequence[SweepRow]) -> list[tuple[str, str]]:
    """The commands that give rows again, each with what its row changes."""
    shown = settings(rows)
    return [(setting_of(row, shown) or "this row", row.command) for row in rows[:_MOST_ROWS] if row.command]


def _capital(head: str) -> str:
    return head[:1].upper() + head[1:]
