"""Rows of fleets in the terminal: settings, what is hit and loaded, and the times of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.report.what_if_words import how_sure, settings
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import duration, percent
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console


def put_fleet_rows(console: Console, rows: Sequence[SweepRow], *, plain: bool) -> None:
    """A table of the columns that the rows have."""
    titles, cells = settings(rows)
    parts: list[tuple[Column, list[str]]] = [
        (Column("hit rate", keep=6), [percent(row.hit_rate) for row in rows]),
        (Column("loaded", keep=7), [_share(row.loaded_rate) for row in rows]),
        (
            Column("computed", keep=2),
            ["" if row.computed_tokens is None else f"{row.computed_tokens:,}" for row in rows],
        ),
        (Column("break-even", keep=3), [_tokens(row.break_even_tokens) for row in rows]),
        (Column("TTFT p50", keep=5), [_seconds(row.ttft_p50) for row in rows]),
        (Column("TTFT p99"), [_seconds(row.ttft_p99) for row in rows]),
        (Column("TPOT p99", keep=8), [_seconds(row.tpot_p99) for row in rows]),
        (Column("transfer p99", keep=4), [_seconds(row.transfer_p99) for row in rows]),
        (Column("goodput"), ["" if row.goodput is None else f"{row.goodput:.2f}/s" for row in rows]),
        (Column("sure?", "<", keep=1), [how_sure(row, plain=plain) for row in rows]),
    ]
    parts = [(column, shown) for column, shown in parts if any(shown)]
    columns = [*(Column(title, keep=None) for title in titles), *(column for column, _ in parts)]
    table = [[*setting, *(shown[at] for _, shown in parts)] for at, setting in enumerate(cells)]
    put_table(console, columns, table)


def _share(ratio: float | None) -> str:
    return "" if ratio is None else percent(ratio)


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count:,} tokens"


def _seconds(value: float | None) -> str:
    return "" if value is None else duration(value)
