"""Sections in the terminal: title and lead, tables no wider than the console, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.terminal.next_command import shorten_place
from kvtool.report.terminal.profile_blocks.answer_lines import LABEL
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.text.terminal.console import ascii_only, cell_width, is_plain, put, put_field, sanitize, say
from kvtool.text.terminal.table import Column, room_for_first, table

if TYPE_CHECKING:
    from rich.console import Console

_EASY = 24
"""Cells of a name that are worth more than another column."""
_LEAST = 12
"""Cells that a name keeps in any case."""


def print_section(console: Console, section: Section) -> None:
    """Print what the terminal shows of a section: the title where sentences follow it, tables, then notes."""
    plain = ascii_only(console)
    if section.lead:
        put(console, f"  {sanitize(section.title, ascii_only=plain)}", "bold")
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
        room = max(room_for_first(columns, rows, console.width), _LEAST)
        rows = [[shorten_place(row[0], room, ascii_only=plain), *row[1:]] for row in rows]
    head, *lines = table(columns, rows, console.width, ascii_only=plain)
    if is_plain(console):
        put(console, head)
    elif head.lstrip().startswith(columns[0].title):
        put(console, head, "bold")
    else:
        put(console, f"  {sanitize(shown.caption, ascii_only=plain)}", "bold")
        put(console, head)
    for line in lines:
        put(console, line)
    for text in (shown.left_out, *shown.notes):
        if text:
            say(console, sanitize(text, ascii_only=plain), style="dim")


def cells_of(console: Console, shown: Table) -> tuple[list[Column], list[list[str]]]:
    """Return the columns that a terminal shows, and their cells as it can show them."""
    plain = ascii_only(console)
    places = [place for place, column in enumerate(shown.columns) if column.only != "pages"]
    columns = [_column(shown.columns[place], first=place == places[0]) for place in places]
    rows = [[str(row[place]).replace("±", "+-" if plain else "±") for place in places] for row in shown.rows]
    return columns, [[sanitize(text, ascii_only=plain) for text in row] for row in rows]


def _column(column: TableColumn, *, first: bool) -> Column:
    """Heads after the first begin in lower case, but for abbreviations."""
    head = column.short or column.head
    if not first and not head[1:2].isupper():
        head = head[:1].lower() + head[1:]
    align = ">" if column.kind == "number" else "<"
    return Column(head, align, keep=column.keep, prose=column.kind == "prose")


def _fitted(
    columns: list[Column], rows: list[list[str]], width: int, cut: bool
) -> tuple[list[Column], list[list[str]]]:
    """Leave out columns of a table that is too wide, those of one `keep` together; `cut` names need `_EASY` cells at most."""
    longest = max(
        (cell_width(text) for text in (*([] if cut else [columns[0].title]), *(row[0] for row in rows))), default=0
    )
    for keep in sorted({column.keep for column in columns if column.keep is not None}):
        if room_for_first(columns, rows, width) >= (min(longest, _EASY) if cut else longest):
            break
        kept = [place for place, column in enumerate(columns) if column.keep != keep]
        columns, rows = [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]
    return columns, rows
