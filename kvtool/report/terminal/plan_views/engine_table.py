"""The table of all engines in the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import put_head, put_next
from kvtool.report.terminal.render import print_table
from kvtool.report.views.plans.engines import PARTIAL, facts, sections, short_name, todo
from kvtool.report.views.section import Cell, Table
from kvtool.results.documents.engine_table import EngineTable
from kvtool.text.terminal.console import ascii_only, is_plain, put, sanitize, say
from kvtool.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 20
_NARROW = 96
"""Columns below which the settings of an engine are below its name."""


def print_engine_table(console: Console, table: EngineTable) -> None:
    """Print whether another engine would help, the table of all engines, the evidence for it, and what to run next."""
    plain = ascii_only(console)
    put_head(console, [f"kvtool {__version__}", table.input, *facts(table)])
    for note in table.notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")
    if table.partial:
        say(console, PARTIAL, style="yellow")
    put(console)
    reuse, trust, _ = sections(table, _MOST_GROUPS)
    for number, sentence in enumerate(reuse.lead):
        say(console, sanitize(sentence, ascii_only=plain), hang=2, style=None if number else "bold")
    put(console)
    engines, *groups = reuse.tables
    folded = console.width < _NARROW and not is_plain(console)
    print_table(console, _settings_below(engines, table) if folded else engines)
    for each in groups:
        put(console)
        print_table(console, each)
    put(console)
    for note in trust.notes:
        say(console, sanitize(note, ascii_only=plain), hang=2, style="dim")
    if table.next:
        put(console)
        put_next(console, todo(table), table.next)


def _settings_below(engines: Table, table: EngineTable) -> Table:
    """Return the table with each setting of an engine on a line of its own."""
    rows: list[tuple[Cell, ...]] = []
    for row, (number, _, *figures) in zip(table.rows, engines.rows, strict=True):
        rows.append((number, short_name(row), *figures))
        rows += [("", f"  {flags}", *([""] * len(figures))) for flags in _pairs(row.flags)]
    return replace(engines, rows=rows)


def _pairs(flags: list[str]) -> list[str]:
    """Return flags, each with its value."""
    lines: list[str] = []
    for word in flags:
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines
