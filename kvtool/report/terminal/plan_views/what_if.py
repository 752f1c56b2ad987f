"""The terminal view of `kvtool what-if`: the answer first, then a row for each setting or change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import put_command, put_head, put_next
from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.terminal.render import cells_of, folded_names
from kvtool.report.views.plans.what_if import answer, changes, heading, legend, not_tried
from kvtool.report.views.plans.what_if_rows import rows_table, settings
from kvtool.report.words.what_if_commands import words_of
from kvtool.results.documents.what_if import WhatIfDocument
from kvtool.results.next_step import command_of
from kvtool.text.terminal.console import ascii_only, bar, cell_width, draws_bars, is_plain, put, sanitize, say
from kvtool.text.terminal.table import Column, put_table, room_for_first, shown_titles

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 24


def print_what_if(console: Console, document: WhatIfDocument) -> None:
    """Print the answer, what the rows came to, and how they were counted."""
    put_head(console, [f"kvtool what-if {document.input}", *heading(document)])
    for note in document.notes:
        say(console, note, hang=2, style="dim")
    put(console)
    if document.answer and document.rows:
        titles = _print_changes(console, document)
    else:
        say(console, answer(document), hang=2, style="bold")
        put(console)
        titles = _print_rows(console, document)
    put(console)
    say(console, legend(document, titles), hang=2, style="dim")


def _print_rows(console: Console, document: WhatIfDocument) -> set[str]:
    """Print the rows of a sweep, each with a bar where there is room. Return the titles of the columns that are shown."""
    rows = document.rows
    columns, table = cells_of(console, rows_table("Rows", rows, len(rows)))
    if rows and draws_bars(console) and not is_plain(console):
        at = len(settings(rows)) + 1
        columns.insert(at, Column("", "<", keep=0, drawing=True))
        for row, cells in zip(rows, table, strict=True):
            cells.insert(at, bar(row.hit_rate, _BAR, ascii_only(console)))
    put_table(console, columns, table)
    return shown_titles(columns, table, console.width)


def _print_changes(console: Console, document: WhatIfDocument) -> set[str]:
    """Print what to change first, then a row for each change, how to run it again, and what is missing.

    Return the titles of the columns that are shown.
    """
    plain = ascii_only(console)
    for line in document.answer:
        step = command_of(line)
        if step is None:
            say(console, sanitize(line, ascii_only=plain), hang=2, style="bold")
        else:
            label, command = step
            put_next(console, label[0].lower() + label[1:], words_of(command)[1:])
    put(console)
    table, *_ = changes(document, document.rows).tables
    columns, rows = cells_of(console, table)
    columns[0] = Column("change", "<")
    last = -1 if columns[-1].title == "run it" else len(columns)
    beside = is_plain(console) or room_for_first(columns, rows, console.width) >= max(len(row[0]) for row in rows)
    shown, lines = columns, rows
    if not beside:
        shown, lines = folded_names(columns[:last], [row[:last] for row in rows], console.width)
    put_table(console, shown, lines)
    if not beside and last < 0:
        _commands(console, rows, [row[-1] for row in rows])
    if document.missing:
        put(console)
        put(console, "Not in the table:", "bold")
        for change, why in not_tried(document):
            say(console, sanitize(f"{change}: {why}.", ascii_only=plain), hang=2)
    return shown_titles(shown, lines, console.width)


def _commands(console: Console, table: Sequence[Sequence[str]], again: Sequence[str]) -> None:
    """Print the commands below the table, where they have no room beside it."""
    plain = ascii_only(console)
    put(console)
    put(console, "Run it:", "bold")
    for (name, *_), said in zip(table, again, strict=True):
        if not said:
            continue
        lines = shell_lines(words_of(said), console.width, plain)
        if len(lines) == 1 and cell_width(lines[0]) + cell_width(name) + 2 <= console.width:
            put(console, f"  {name}:{lines[0][1:]}")
        else:
            say(console, f"{name}:", hang=2)
            put_command(console, words_of(said))
