"""The terminal's block of money: reported beside predicted, what was paid and would be, why, and what marking pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.words.money_lines import MoneyLine, MoneyTable, MoneyView
from kvtool.text.terminal.console import is_plain, put, put_field, sanitize, say
from kvtool.text.terminal.table import Column
from kvtool.text.terminal.table import table as table_lines

if TYPE_CHECKING:
    from rich.console import Console


def print_money(console: Console, view: MoneyView, plain: bool) -> None:
    """All of it, no wider than the console."""
    label = max((len(line.label) for line in view.lines), default=0) + 2
    by = max((len(line.by) for line in view.lines), default=0)
    amount = max((len(line.amount) for line in view.lines), default=0)
    for line in view.lines:
        _line(console, line, label, by, amount)
    for table in view.tables:
        put(console)
        _table(console, table, plain)
    for note in view.notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")


def _line(console: Console, line: MoneyLine, label: int, by: int, amount: int) -> None:
    """A rate and an amount; what does not fit beside them stands below."""
    paid = f"{line.verb} {line.amount}".strip()
    if is_plain(console):
        put_field(
            console, line.label, line.rate or line.by, *((line.by,) if line.rate else ()), paid, *line.parts, size=label
        )
        return
    front = f"  {line.label:<{label}}{line.rate:>6}  "
    right = f"{line.verb:<5} {line.amount:>{amount}}" if line.amount else ""
    told = f"{front}{line.by:<{by}}  {right}".rstrip()
    parts = list(line.parts)
    if len(told) > console.width:
        told = f"{front}{right}".rstrip()
        parts = [*([line.by] if line.by else []), *parts]
    joint = " · " if not console.options.ascii_only else " | "
    joined = joint.join(parts)
    if parts and len(told) + 3 + len(joined) <= console.width:
        put(console, f"{told}   {joined}")
        return
    put(console, told)
    indent = len(front) if console.width >= 70 else 4
    for row in _filled(parts, joint, console.width - indent):
        say(console, row, indent=indent)


def _filled(parts: list[str], joint: str, width: int) -> list[str]:
    """The parts on as few rows as hold them, each whole where it fits into one."""
    rows: list[str] = []
    for part in parts:
        if rows and len(rows[-1]) + len(joint) + len(part) <= width:
            rows[-1] += joint + part
        else:
            rows.append(part)
    return rows


def _table(console: Console, table: MoneyTable, plain: bool) -> None:
    last = len(table.columns) - 1
    columns = [
        Column(title, "<" if at == 0 or (at == last and table.prose) else ">", prose=at == last and table.prose)
        for at, title in enumerate(table.columns)
    ]
    rows = [[sanitize(cell, ascii_only=plain) for cell in row] for row in table.rows]
    lines = table_lines(columns, rows, console.width, ascii_only=plain)
    stacked = not is_plain(console) and not lines[0].lstrip().startswith(table.columns[0])
    if stacked:  # then there is no head to say what it is about
        put(console, f"  {table.title}", "bold")
    for at, line in enumerate(lines):
        put(console, line, "bold" if at == 0 and not stacked and not is_plain(console) else None)
