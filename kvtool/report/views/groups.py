"""The groups of a profile, a row each: requests, hit rates, losses, gates and the worst finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvtool.report.views.checks import worst_status
from kvtool.report.views.section import Cell, Figure, Table, TableColumn
from kvtool.results.finding import Finding
from kvtool.results.report import Group, Report, lost_tokens
from kvtool.results.verdict import Check
from kvtool.text.terminal.numbers import duration, percent

_NOTHING = ("", "0.0%")
COLUMNS = (
    TableColumn("Group", cut=True),
    TableColumn("Requests", "number"),
    TableColumn("Tokens per request", "number", "tokens/request", keep=4),
    TableColumn("Hit rate", "number"),
    TableColumn("Maximum", "number"),
    TableColumn("Over time", keep=0, only="terminal"),
    TableColumn("Lost per request", "number", "lost/request", keep=5),
    TableColumn("Blocked", "number", keep=3),
    TableColumn("Evicted", "number", keep=2),
    TableColumn("New", "number", keep=1),
    TableColumn("TTFT p50, predicted", "number", only="pages"),
    TableColumn("Gate", "word", keep=7),
    TableColumn("Worst finding", "word", keep=6),
)
_ALWAYS = ("Group", "Requests", "Tokens per request", "Hit rate", "Lost per request")
_OF_TEXT = ("Maximum", "Blocked", "New")
"""What the texts decide; where every prompt is below the provider's minimum, they decide nothing."""
NEW_NOTE = "New: first use and unique text. Shares are of the prompt tokens of the group."


def groups_table(
    report: Report, gates: Mapping[str | None, Sequence[Check]], most: int, over_time: Mapping[str | None, str]
) -> Table:
    """Return `most` rows at most, without columns in which nothing happened; `over_time` has a drawing of some hit rates."""
    worst: dict[str, Finding] = {}
    for finding in report.findings:
        worst.setdefault(finding.group, finding)
    rows = [
        _row(group, over_time.get(group.name, ""), gates.get(group.name, ()), worst.get(group.name))
        for group in report.groups[:most]
    ]
    kept = [
        place for place, column in enumerate(COLUMNS) if _is_shown(column.head, report, [row[place] for row in rows])
    ]
    columns = tuple(COLUMNS[place] for place in kept)
    shown = [tuple(row[place] for place in kept) for row in rows]
    return Table("Groups", columns, shown, more=len(report.groups) - len(rows), sorts="groups")


def _is_shown(head: str, report: Report, cells: Sequence[Cell]) -> bool:
    """Return whether a column says anything that the others do not."""
    if head in _ALWAYS:
        return True
    if report.below_minimum and head in _OF_TEXT:
        return False
    if head == "Maximum":
        return any(group.reachable_tokens != group.hit_tokens for group in report.groups)
    return any(str(cell) not in _NOTHING for cell in cells)


def _row(group: Group, over_time: str, gates: Sequence[Check], worst: Finding | None) -> tuple[Cell, ...]:
    tokens, requests = max(group.prompt_tokens, 1), max(group.requests, 1)

    def share(*fates: str) -> Figure:
        return _rate(sum(group.fates.get(fate, 0) for fate in fates) / tokens)

    ttft = group.predicted_ttft
    return (
        group.name,
        _count(group.requests),
        _count(group.prompt_tokens / requests),
        _rate(group.hit_rate),
        _rate(group.reachable_hit_rate),
        over_time,
        _count(lost_tokens(group) / requests),
        share("blocked"),
        share("evicted"),
        share("first_use", "unique"),
        Figure(duration(ttft.p50), ttft.p50) if ttft is not None else "",
        worst_status(gates) or "",
        f"{worst.code} {worst.severity}" if worst is not None else "",
    )


def _count(value: float) -> Figure:
    return Figure(f"{value:,.0f}", value)


def _rate(value: float) -> Figure:
    return Figure(percent(value), value)
