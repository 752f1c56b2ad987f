"""Sections in the terminal: title and lead, tables no wider than the console, notes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import shown_path
from kvtool.report.terminal.next_command import shorten_place
from kvtool.report.views.section import Cell, Figure, Section, Table, TableColumn
from kvtool.text.terminal.console import ascii_only, bar, cell_width, fold, is_plain, put, put_field, sanitize, say
from kvtool.text.terminal.table import Column, room_for_first, table

if TYPE_CHECKING:
    from rich.console import Console

LABEL = 12
"""Cells of a label at the head of a line."""
_BAR = 20
_EASY = 24
"""Cells of a name that are worth more than another column."""
_LEAST = 12
"""Cells that a name keeps in any case."""
_PROSE = 16
"""Cells of a sentence beside which names are not cut."""


def print_section(console: Console, section: Section) -> None:
    """Print what the terminal shows of a section: the title where sentences follow it, tables, then notes."""
    plain = ascii_only(console)
    if section.lead:
        say(console, sanitize(section.title, ascii_only=plain), style="bold")
        for text in section.lead:
            say(console, sanitize(text, ascii_only=plain), indent=4)
    for label, text in section.settings:
        put_field(console, label, sanitize(text, ascii_only=plain), size=LABEL, hang=LABEL + 2)
    for number, each in enumerate(each for each in section.tables if each.only != "pages"):
        if number:
            put(console)
        print_table(console, each)
    notes = (section.missing.text, *section.notes) if section.missing is not None else section.notes
    for text in notes:
        say(console, sanitize(text, ascii_only=plain), style="dim")


def print_table(console: Console, shown: Table) -> None:
    """Print a table under a bold head; one that is too wide for that is stacked below its caption."""
    plain = ascii_only(console)
    columns, rows = cells_of(console, shown)
    cut = next(column.cut for column in shown.columns if column.only != "pages")
    columns, rows = _fitted(columns, rows, console.width, cut)
    if cut:
        columns, rows = _cut(columns, rows, console.width, plain)
    lines = table(columns, rows, console.width, ascii_only=plain)
    has_head = not is_plain(console) and bool(lines) and lines[0].lstrip().startswith(columns[0].title)
    if shown.titled or not (has_head or is_plain(console)):
        say(console, sanitize(shown.caption, ascii_only=plain), style="bold")
    for number, line in enumerate(lines):
        put(console, line, "bold" if has_head and not number else None)
    for text in (shown.left_out, *shown.notes):
        if text:
            say(console, sanitize(text, ascii_only=plain), style="dim")


def cells_of(console: Console, shown: Table) -> tuple[list[Column], list[list[str]]]:
    """Return the columns that a terminal shows, and their cells as it can show them."""
    plain = ascii_only(console)
    places = [place for place, column in enumerate(shown.columns) if column.only != "pages"]
    columns = [_column(shown.columns[place], first=place == places[0]) for place in places]
    return columns, [[_text(row[place], shown.columns[place], plain) for place in places] for row in shown.rows]


def _text(cell: Cell, column: TableColumn, plain: bool) -> str:
    if column.kind == "bar" and isinstance(cell, Figure):
        return bar(cell.value, _BAR, plain)
    text = str(cell).replace("±", "+-") if plain else str(cell)
    return shown_path(text, plain) if column.kind == "code" else sanitize(text, ascii_only=plain)


def _column(column: TableColumn, *, first: bool) -> Column:
    """Heads after the first begin in lower case, but for abbreviations."""
    head = column.short or column.head
    if not first and not head[1:2].isupper():
        head = head[:1].lower() + head[1:]
    align = ">" if column.kind == "number" else "<"
    return Column(head, align, keep=column.keep, prose=column.kind == "prose", drawing=column.kind == "bar")


def _fitted(
    columns: list[Column], rows: list[list[str]], width: int, cut: bool
) -> tuple[list[Column], list[list[str]]]:
    """Leave out columns of a table that is too wide, those of one `keep` together.

    Where names are `cut`, they need `_EASY` cells at most, and sentences `_PROSE`.
    """
    longest = max(cell_width(text) for text in ("" if cut else columns[0].title, *(row[0] for row in rows)))
    for keep in sorted({column.keep for column in columns if column.keep is not None}):
        short = _short_prose(columns, rows) if cut else rows
        if room_for_first(columns, short, width) >= (min(longest, _EASY) if cut else longest):
            break
        kept = [place for place, column in enumerate(columns) if column.keep != keep]
        columns, rows = [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]
    return columns, rows


def folded_names(columns: list[Column], rows: list[list[str]], width: int) -> tuple[list[Column], list[list[str]]]:
    """Return the columns for which there is room beside the names, and names on as many lines as they take."""
    columns, rows = _fitted(columns, rows, width, cut=False)
    room = max(room_for_first(columns, rows, width), _LEAST)
    found = []
    for name, *cells in rows:
        first, *more = fold(name, room, indent=2)
        found += [[first, *cells], *([line, *[""] * len(cells)] for line in more)]
    return columns, found


def _cut(columns: list[Column], rows: list[list[str]], width: int, plain: bool) -> tuple[list[Column], list[list[str]]]:
    """Cut names in their middle, where there is no room; sentences that stay are shortened."""
    room = max(room_for_first(columns, _short_prose(columns, rows), width), _LEAST)
    columns = [replace(column, keep=None) if column.prose else column for column in columns]
    return columns, [[_short_name(row[0], room, plain), *row[1:]] for row in rows]


def _short_prose(columns: list[Column], rows: list[list[str]]) -> list[list[str]]:
    return [
        [cell[:_PROSE] if column.prose else cell for column, cell in zip(columns, row, strict=True)] for row in rows
    ]


def _short_name(name: str, room: int, plain: bool) -> str:
    """Leave out the role that the index of a message says as well, then cut in the middle."""
    if cell_width(name) > room and name.startswith("messages["):
        message, _, rest = name.partition(" (")
        name = message + rest.partition(")")[2]
    return shorten_place(name, room, ascii_only=plain)
