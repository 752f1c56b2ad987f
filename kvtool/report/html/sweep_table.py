"""The rows of a sweep as a table of the page."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.report.html.page_parts import Table, TableColumn
from kvtool.report.what_if_columns import columns
from kvtool.results.documents.what_if import SweepRow

_MOST_ROWS = 200
_MANY_ROWS = 40


def sweep_table(caption: str, rows: Sequence[SweepRow]) -> Table:
    """What rows differ in and what comes of it, in the order of the rows; folded where they are many."""
    shown = columns(rows)
    cells: list[tuple[object, ...]] = [tuple(column.cell(row) for column in shown) for row in rows[:_MOST_ROWS]]
    return Table(
        caption,
        tuple(TableColumn(_capital(column.head), column.kind) for column in shown),
        cells,
        more=max(len(rows) - _MOST_ROWS, 0),
        folded=len(rows) > _MANY_ROWS,
    )


def _capital(head: str) -> str:
    return head[:1].upper() + head[1:]
