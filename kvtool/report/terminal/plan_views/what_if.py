"""What `kvtool what-if` prints: what the requests can hit at most, then a row for each setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.words.what_if_columns import RowColumn, outcomes, settings
from kvtool.report.words.what_if_words import answer, heading, legend
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.console import ascii_only, bar, draws_bars, fold, is_plain, pack, put, sanitize
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 24


def print_what_if(console: Console, document: WhatIfDocument) -> None:
    """The answer first: how much can be hit, and what of the rows comes near it."""
    plain = ascii_only(console)
    head = [
        f"kvtool what-if {sanitize(document.input, ascii_only=plain)}",
        *heading(document),
    ]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    for note in document.notes:
        for line in fold(f"  {note}", console.width, indent=4):
            put(console, line, "dim")
    put(console)
    if document.answer and document.rows:
        from kvtool.report.terminal.plan_views.what_if_table import print_table

        print_table(console, document)
        return
    for line in fold(f"  {answer(document)}", console.width, indent=4):
        put(console, line, "bold")
    put(console)
    rows = document.rows
    bars = draws_bars(console) and not is_plain(console)
    changed, came = settings(rows), [column for column in outcomes(rows) if column.kind != "command"]
    columns = [_column(column) for column in (*changed, *came)]
    table = [[_cell(column, row, plain=plain) for column in (*changed, *came)] for row in rows]
    if bars and rows:
        at = len(changed) + 1
        columns.insert(at, Column("", "<", keep=0, drawing=True))
        for row, cells in zip(rows, table, strict=True):
            cells.insert(at, bar(row.hit_rate, _BAR, plain))
    put_table(console, columns, table)
    put(console)
    for line in fold(f"  {legend(document)}", console.width, indent=4):
        put(console, line, "dim")


def _column(column: RowColumn) -> Column:
    return Column(column.head, "<" if column.head in ("router", "sure?") else ">", keep=column.keep)


def _cell(column: RowColumn, row: SweepRow, *, plain: bool) -> str:
    text = column.cell(row)
    return sanitize(text.replace("±", "+-") if plain else text, ascii_only=plain)
