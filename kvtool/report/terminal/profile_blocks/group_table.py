"""The groups of a profile, a row each, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.terminal.next_command import shorten_middle
from kvtool.report.terminal.profile_blocks.sparkline import hit_rates, sparkline
from kvtool.report.terminal.verdict import status_word
from kvtool.results.report import Group, Report, lost_tokens
from kvtool.results.verdict import Check
from kvtool.results.views import Timeline
from kvtool.text.terminal.console import draws_bars, put, sanitize
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

MOST_GROUPS = 40
_SPARKLINES_FROM = 100
_SPARKLINE = 12
_NOTHING = ("", "0.0%")
_COLUMNS = (
    Column("Group", "<"),
    Column("reqs"),
    Column("tokens/req", keep=3),
    Column("hit"),
    Column("reach"),
    Column("over time", "<", keep=0),
    Column("lost/req", keep=4),
    Column("blocked", keep=2),
    Column("evicted", keep=1),
    Column("cold", keep=1),
    Column("gate", "<", keep=6),
    Column("worst finding", "<", keep=5),
)
_ALWAYS = ("Group", "reqs", "tokens/req", "hit", "lost/req")


def print_groups(console: Console, report: Report, timelines: Sequence[Timeline], plain: bool) -> None:
    """Requests, rates and losses of each group; columns in which nothing happened are left out."""
    gates: dict[str | None, list[Check]] = {}
    for gate in report.gates:
        gates.setdefault(gate.group, []).append(gate)
    worst: dict[str, str] = {}
    for finding in report.findings:
        worst.setdefault(finding.group, f"{finding.code} {finding.severity}")
    groups = report.groups[:MOST_GROUPS]
    lines = _over_time(console, timelines, plain)
    rows = [
        (
            name,
            *_cells(group, lines.get(group.name, "")),
            status_word(gates.get(group.name, ())),
            worst.get(group.name, ""),
        )
        for name, group in zip(group_names(groups, console, plain), groups, strict=True)
    ]
    kept = [
        place for place, column in enumerate(_COLUMNS) if _tells(column.title, report, [row[place] for row in rows])
    ]
    put_table(console, [_COLUMNS[place] for place in kept], [[row[place] for place in kept] for row in rows])
    if len(report.groups) > MOST_GROUPS:
        put(console, f"  and {len(report.groups) - MOST_GROUPS:,} more groups: --json has them all", "dim")


def _tells(title: str, report: Report, cells: Sequence[str]) -> bool:
    """Whether a column says anything that the others do not."""
    if title in _ALWAYS:
        return True
    if title in FATES and title not in report.fates:
        return False
    if title == "reach":
        return any(group.reachable_tokens != group.hit_tokens for group in report.groups[:MOST_GROUPS])
    return any(cell not in _NOTHING for cell in cells)


def group_names(groups: Sequence[Group], console: Console, plain: bool) -> list[str]:
    """Names of groups that leave room for the numbers: long ones keep their beginning and their end."""
    room = max(console.width // 4, 12)
    names = [sanitize(group.name, ascii_only=plain) for group in groups]
    return [shorten_middle(name, room, ascii_only=plain) for name in names]


def _over_time(console: Console, timelines: Sequence[Timeline], plain: bool) -> dict[str | None, str]:
    """By group, how its hit rate went, where there is room for that and where it changed."""
    if not draws_bars(console) or console.width < _SPARKLINES_FROM:
        return {}
    drawn = {line.group: sparkline(hit_rates(line, _SPARKLINE), plain=plain) for line in timelines}
    return {group: line for group, line in drawn.items() if len(set(line.replace(" ", ""))) > 1}


def _cells(group: Group, over_time: str) -> list[str]:
    """Requests, tokens per request, hit, reach, over time, lost per request, and the shares of blocked, evicted and cold tokens."""
    tokens, requests = max(group.prompt_tokens, 1), max(group.requests, 1)

    def share(*fates: str) -> str:
        return percent(sum(group.fates.get(fate, 0) for fate in fates) / tokens)

    return [
        f"{group.requests:,}",
        f"{group.prompt_tokens / requests:,.0f}",
        percent(group.hit_rate),
        percent(group.reachable_hit_rate),
        over_time,
        f"{lost_tokens(group) / requests:,.0f}",
        share("blocked"),
        share("evicted"),
        share("first_use", "unique"),
    ]
