"""What `kvtool what-if` prints: what the requests can hit at most, then a row for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.report.what_if_words import answer, heading, how_sure, legend, settings
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.console import ascii_only, bar, draws_bars, fold, is_plain, pack, put, sanitize
from kvtool.text.terminal.numbers import percent
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
    if document.answer:
        from kvtool.report.terminal.what_if_table import print_table

        print_table(console, document)
        return
    for line in fold(f"  {answer(document)}", console.width, indent=4):
        put(console, line, "bold")
    put(console)
    rows = document.rows
    if rows and rows[0].axis in ("tier", "pd"):
        from kvtool.report.terminal.what_if_fleet import put_fleet_rows

        put_fleet_rows(console, rows, plain=plain)
    else:
        _put_curve(console, rows, plain=plain)
    put(console)
    for line in fold(f"  {legend(document)}", console.width, indent=4):
        put(console, line, "dim")


def _put_curve(console: Console, rows: Sequence[SweepRow], *, plain: bool) -> None:
    """Rows that hits alone tell apart."""
    titles, cells = settings(rows)
    bars = draws_bars(console) and not is_plain(console)
    columns = [
        *(Column(title, keep=None) for title in titles),
        Column("hit rate"),
        *([Column("", "<", keep=0, drawing=True)] if bars else []),
        Column("hit blocks", keep=1),
        Column("sure?", "<", keep=2),
    ]
    table = [
        [
            *setting,
            percent(row.hit_rate),
            *([bar(row.hit_rate, _BAR, plain)] if bars else []),
            f"{row.hit_blocks:,.0f}",
            how_sure(row, plain=plain),
        ]
        for row, setting in zip(rows, cells, strict=True)
    ]
    put_table(console, columns, table)
