"""Where the tokens of each session, tenant or line went."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import FATES
from kvtool.accounting.ledger.sums import OTHERS
from kvtool.report.terminal.next_command import shorten_place
from kvtool.results.choices import By
from kvtool.results.report import SumRow, Sums
from kvtool.text.terminal.console import ascii_only, cell_width, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table, room_for_first

if TYPE_CHECKING:
    from rich.console import Console

_MOST_ROWS = 20
_LEAST_KEY = 12
_EASY_KEY = 24
"""Cells of a key that are worth more than another column."""
_NOUNS: dict[By, str] = {"session": "session", "tenant": "tenant", "line": "line"}


def print_sums(console: Console, sums: Sums) -> None:
    """The costliest rows, the rest as one, and what the columns sum to."""
    plain = ascii_only(console)
    rows = costliest(sums.rows)
    columns = [
        Column(_NOUNS[sums.by].title(), "<"),
        Column("reqs"),
        Column("tokens"),
        Column("hit"),
        Column("lost"),
        Column("most of it", "<"),
        Column("then", "<"),
    ]
    cells = [_cells(row, by=sums.by, plain=plain) for row in rows]
    while len(columns) > 5 and room_for_first(columns, cells, console.width) < min(
        _EASY_KEY, max(cell_width(row[0]) for row in cells)
    ):
        columns.pop()
    room = max(room_for_first(columns, cells, console.width), _LEAST_KEY)
    shown = [(shorten_place(row[0], room, ascii_only=plain), *row[1:]) for row in cells]
    put_table(console, columns, shown)
    tokens, lost = sum(row.prompt_tokens for row in rows), sum(row.lost_tokens for row in rows)
    more = len(sums.rows) - len(rows) + 1
    text = f"tokens sum to {tokens:,} and lost to {lost:,}, as for all requests"
    if more > 1:
        text += f"; {OTHERS} are {plural(more, _NOUNS[sums.by])}"
    if sums.by == "line":
        text += "; a request counts in each line that it has tokens of"
    say(console, text, style="dim")


def costliest(rows: list[SumRow], most: int = _MOST_ROWS) -> list[SumRow]:
    """The rows that lost most, in that order, and the sum of all others as the last one."""
    named = [row for row in rows if row.key != OTHERS]
    rest = named[most:] + [row for row in rows if row.key == OTHERS]
    if not rest:
        return named
    fates: Counter[str] = Counter()
    for row in rest:
        fates.update(row.fates)
    tokens, hit = sum(row.prompt_tokens for row in rest), sum(row.hit_tokens for row in rest)
    others = SumRow(
        key=OTHERS,
        requests=sum(row.requests for row in rest),
        prompt_tokens=tokens,
        hit_tokens=hit,
        hit_rate=hit / tokens if tokens else 0.0,
        lost_tokens=sum(row.lost_tokens for row in rest),
        fates=fates,
    )
    return [*named[:most], others]


def _cells(row: SumRow, *, by: By, plain: bool) -> tuple[str, ...]:
    """Key, requests, tokens, hit rate, lost tokens, and the two fates that took most of them, as parts of the row's tokens."""
    lost = sorted(((-count, fate) for fate, count in row.fates.items() if count and fate != "hit"))
    told = [f"{FATES[fate]} {percent(-count / row.prompt_tokens)}" for count, fate in lost[:2]]
    several = row.key == OTHERS and by == "line"  # whose requests would count more than once
    return (
        sanitize(row.key, ascii_only=plain),
        "" if several else f"{row.requests:,}",
        f"{row.prompt_tokens:,}",
        percent(row.hit_rate),
        f"{row.lost_tokens:,}",
        *told,
        *[""] * (2 - len(told)),
    )
