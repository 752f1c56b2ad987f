"""The table of all engines in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.words.engine_words import STATUS, answer, evidence, heading, row_name, short_name
from kvtool.results.documents.engine_table import EngineTable
from kvtool.text.terminal.console import ascii_only, is_plain, pack, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table
from kvtool.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 20
_NARROW = 96
"""Columns below which the settings of an engine stand below its name."""


def print_engine_table(console: Console, table: EngineTable) -> None:
    """What every engine reuses, why some reuse less, how far that can be trusted, and what to run next."""
    plain = ascii_only(console)
    head = [f"kvtool {__version__}", sanitize(table.input, ascii_only=plain), *heading(table)]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    for note in table.notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")
    if table.partial:
        say(console, "interrupted: the figures are of the requests up to there", style="yellow")
    put(console)
    _rows(console, table, plain)
    put(console)
    for sentence in answer(table):
        say(console, sanitize(sentence, ascii_only=plain), hang=2)
    if len(table.groups) > 1:
        put(console)
        _groups(console, table, plain)
    put(console)
    for engine, told in evidence(table):
        say(console, f"{engine}: {told}", hang=2, style="dim")
    if table.next:
        put(console)
        say(console, "Next: where these tokens go, and the settings that win them back, tried:")
        for line in shell_lines(["kvtool", *table.next], console.width, plain):
            put(console, line)


def _rows(console: Console, table: EngineTable, plain: bool) -> None:
    columns = [
        Column("#", keep=3 if len(table.groups) < 2 else None),
        Column("Engine", "<"),
        Column("cached"),
        Column("hit"),
        Column("less", keep=2),
        Column("because of", "<", keep=4),
        Column("rules", "<", keep=1),
    ]
    folded = console.width < _NARROW and not is_plain(console)
    rows: list[tuple[str, ...]] = []
    for number, row in enumerate(table.rows, 1):
        name = sanitize(short_name(row) if folded else row_name(row), ascii_only=plain)
        less = f"{row.behind_tokens:,}" if row.behind_tokens else ""
        figures = (f"{row.cached_tokens:,}", percent(row.hit_rate), less, row.cause or "", STATUS[row.status])
        rows.append((str(number), name, *figures))
        if folded:
            rows += [("", f"  {flags}", "", "", "", "", "") for flags in _pairs(row.flags)]
    put_table(console, columns, rows)


def _pairs(flags: list[str]) -> list[str]:
    """Flags, each with its value."""
    lines: list[str] = []
    for word in flags:
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines


def _groups(console: Console, table: EngineTable, plain: bool) -> None:
    """Hit rates of each group under every engine, by the numbers of the rows above, and what the largest difference is due to."""
    columns = [
        Column("Group", "<", prose=True),
        *(Column(str(number)) for number in range(1, len(table.rows) + 1)),
        Column("largest difference", "<", keep=1),
    ]
    rows = [
        (
            sanitize(group.name, ascii_only=plain),
            *(percent(tokens / group.prompt_tokens if group.prompt_tokens else 0.0) for tokens in group.cached_tokens),
            group.cause or "",
        )
        for group in table.groups[:_MOST_GROUPS]
    ]
    put_table(console, columns, rows)
    if len(table.groups) > _MOST_GROUPS:
        say(console, f"and {plural(len(table.groups) - _MOST_GROUPS, 'more group')}; --json has all", style="dim")
