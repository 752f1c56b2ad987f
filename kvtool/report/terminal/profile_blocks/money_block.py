"""The amounts of a report in the terminal, a line each; their tables are printed as those of any section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.report.views.money import MoneyLine
from kvtool.text.terminal.console import is_plain, put, put_field, say

if TYPE_CHECKING:
    from rich.console import Console


def print_money_lines(console: Console, lines: Sequence[MoneyLine]) -> None:
    """Print a rate and an amount for each, in columns."""
    label = max((len(line.label) for line in lines), default=0) + 2
    by = max((len(line.by) for line in lines), default=0)
    amount = max((len(line.amount) for line in lines), default=0)
    for line in lines:
        _line(console, line, label, by, amount)


def _line(console: Console, line: MoneyLine, label: int, by: int, amount: int) -> None:
    """Print a rate and an amount; what does not fit beside them is below."""
    if is_plain(console):
        put_field(
            console,
            line.label,
            line.rate or line.by,
            *((line.by,) if line.rate else ()),
            line.paid,
            *line.parts,
            size=label,
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
    """Put the parts on as few rows as there is room for, each part on one row where it fits."""
    rows: list[str] = []
    for part in parts:
        if rows and len(rows[-1]) + len(joint) + len(part) <= width:
            rows[-1] += joint + part
        else:
            rows.append(part)
    return rows
