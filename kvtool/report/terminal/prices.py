"""The terminal view of `kvtool prices`: rates per million tokens, their days and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.results.documents.prices import PriceLine, PricesDocument
from kvtool.text.terminal.console import ascii_only, put, sanitize, say
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = (
    *(
        Column("Model", "<"),
        Column("API", "<"),
        Column("from", "<"),
        Column("to", "<"),
        Column("input"),
        Column("read"),
        Column("write"),
    ),
    *(Column("1 h"), Column("output"), Column("checked", "<", keep=1)),
)


def print_prices(console: Console, document: PricesDocument, *, details: bool, on: str | None = None) -> None:
    """Print a line for each row; with `details` the rest of it, and its source. `on` is the day that was asked for."""
    plain = ascii_only(console)
    rows = [[sanitize(cell, ascii_only=plain) for cell in _cells(row)] for row in document.rows]
    put_table(console, _COLUMNS, rows)
    if on is not None and any(row.since is None for row in document.rows):
        put(console)
        say(
            console,
            sanitize(f"Rows without a first day may be of models that did not exist on {on}.", ascii_only=plain),
        )
    if not details:
        return
    for row in document.rows:
        put(console)
        say(
            console,
            sanitize(f"{row.provider} {min(row.models, key=len)}, {row.currency} per million tokens", ascii_only=plain),
            style="bold",
        )
        for text in (*row.conditions, *([] if row.storage_hour is None else [f"storage {row.storage_hour} per hour"])):
            say(console, sanitize(text, ascii_only=plain), indent=4)
        say(
            console,
            sanitize(f"{'source' if row.confirmed else 'only source'}: {row.source}", ascii_only=plain),
            indent=4,
            style="dim",
        )


def _cells(row: PriceLine) -> tuple[str, ...]:
    return (
        min(row.models, key=len),
        row.provider,
        row.since or "",
        row.until or "",
        row.input,
        row.cache_read,
        row.cache_write if row.cache_write != row.input else "",
        row.cache_write_1h if row.cache_write_1h not in (row.input, row.cache_write) else "",
        row.output,
        row.checked or "",
    )
