"""The causes of each group in the terminal: blame, fair share, and what fixing them unlocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.report.terminal.next_command import shorten_middle, shorten_place
from kvtool.report.terminal.shown_path import shown_path
from kvtool.results.report import Cause, Group
from kvtool.text.terminal.console import ascii_only, cell_width, put, sanitize, say
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.table import Column, put_table, room_for_first

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 10
_MOST_ROWS = 8
_LEAST_PLACE = 12
_NAMED_FROM = 72
"""Columns from which there is room to say what varies, at least this much of it (with the gap)."""
_NAME = 18


class _Table(NamedTuple):
    """The causes of a group, and those of them that the terminal shows."""

    group: Group
    causes: list[Cause]
    rows: list[Cause]

    @property
    def tokens(self) -> int:
        """What is lost behind all of them."""
        return sum(row.share_tokens for row in self.causes) + self.group.causes_left_out.share_tokens


def told(group: Group, causes: Iterable[Cause]) -> list[Cause]:
    """Those causes of a group that the terminal shows."""
    least = THRESHOLDS.warning_share * group.prompt_tokens
    return [row for row in causes if row.unlock is not None or row.blame_tokens >= least][:_MOST_ROWS]


def print_causes(console: Console, groups: Iterable[Group], causes: Iterable[Cause]) -> None:
    """A table for each group in which several causes stand together, then what the columns are."""
    plain = ascii_only(console)
    by_group: dict[str, list[Cause]] = {}
    for cause in causes:
        by_group.setdefault(cause.group, []).append(cause)
    each_group = ((group, by_group.get(group.name, [])) for group in groups)
    tables = [_Table(group, causes, told(group, causes)) for group, causes in each_group]
    several = sorted((table for table in tables if len(table.rows) > 1), key=lambda table: -table.tokens)
    for table in several[:_MOST_GROUPS]:
        put(console)
        _group(console, table, plain)
    if len(several) > _MOST_GROUPS:
        put(console, f"  and {len(several) - _MOST_GROUPS:,} more groups: --json has them all", "dim")
    if not several:
        return
    text = "blame: tokens in whose way it stands first; share: each token split among all in its way; both sum to what is lost"
    if any(row.unlock is not None for table in several for row in table.causes):
        text += "; hit rates, measured: alone with nothing but this fix, so far with it and those above it"
    say(console, text, style="dim")


def _group(console: Console, table: _Table, plain: bool) -> None:
    rows = table.rows
    fixed = [row.unlock for row in rows if row.unlock is not None]
    name = shorten_middle(sanitize(table.group.name, ascii_only=plain), max(console.width // 3, 12), ascii_only=plain)
    rate = f" (hit {percent(fixed[0].before)})" if fixed else ""
    say(console, f"In the way of {table.tokens:,} lost tokens of {name}{rate}", style="bold")
    columns = [Column("Place", "<"), Column("code", "<"), Column("blame"), Column("share")]
    columns += [Column("alone"), Column("so far")] if fixed else []
    named = console.width >= _NAMED_FROM
    columns += [Column("what", "<", prose=True)] if named else []
    cells = [_cells(row, plain, unlocks=bool(fixed), named=named) for row in rows]
    blame = table.tokens - sum(row.blame_tokens for row in rows)
    share = table.tokens - sum(row.share_tokens for row in rows)
    if table.group.causes_left_out.causes + len(table.causes) > len(rows):
        cells.append(("(others)", "", f"{blame:,}", f"{share:,}", *[""] * (len(columns) - 4)))
    before = len(columns) - named
    room = room_for_first(columns[:before], [row[:before] for row in cells], console.width) - named * _NAME
    room = max(room, _LEAST_PLACE)
    shown = [(_fitting(row[0], room, plain), *row[1:]) for row in cells]
    put_table(console, columns, shown)


def _cells(row: Cause, plain: bool, *, unlocks: bool, named: bool) -> tuple[str, ...]:
    rates: tuple[str, ...] = ()
    if unlocks:
        rates = ("", "") if row.unlock is None else (percent(row.unlock.alone), percent(row.unlock.after))
    what = f"{row.variable}, {row.name}" if row.variable is not None else row.name
    return (
        _place(row, plain),
        row.code,
        f"{row.blame_tokens:,}",
        f"{row.share_tokens:,}",
        *rates,
        *([sanitize(what, ascii_only=plain)] if named else []),
    )


def _place(row: Cause, plain: bool) -> str:
    """A line of a file that people edit, or the part of a logged request and, where it keeps its place, the line in that."""
    if row.in_source:
        return f"{shown_path(row.path, plain)}:{row.line}"
    part = sanitize(row.part or row.path, ascii_only=plain)
    return f"{part}, line {row.line_in_text + 1:,}" if row.line_in_text else part


def _fitting(place: str, room: int, plain: bool) -> str:
    """A place that is no wider than the room: without the role that the index says as well, then cut in the middle."""
    if cell_width(place) > room and place.startswith("messages["):
        message, _, rest = place.partition(" (")
        place = message + rest.partition(")")[2]
    return shorten_place(place, room, ascii_only=plain)
