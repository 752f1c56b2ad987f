"""Hit rates by turn of conversations."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.report.views.section import Cell, Figure, Section, Table, TableColumn
from kvtool.results.report import Report, TurnSums
from kvtool.text.terminal.numbers import percent

_MOST_GROUPS = 10
_SINGLE_TURNS = 6
"""Later turns are summed in ranges that double."""
_COLUMNS = (
    TableColumn("Group", cut=True),
    TableColumn("Turn"),
    TableColumn("Requests", "number"),
    TableColumn("Tokens per request", "number", "tokens/request"),
    TableColumn("Hit rate", "number"),
    TableColumn("", "bar", keep=0, only="terminal"),
)


def view(report: Report) -> Section | None:
    """Return the turns of each group that has a second one; None where no group has."""
    groups = [group for group in report.groups if len(group.turns) > 1]
    if not groups:
        return None
    rows: list[tuple[Cell, ...]] = [
        (group.name, *cells) for group in groups[:_MOST_GROUPS] for cells in _turn_rows(group.turns)
    ]
    columns: tuple[TableColumn, ...] = _COLUMNS
    if len(report.groups) == 1:
        columns, rows = columns[1:], [row[1:] for row in rows]
    more = len(groups) - _MOST_GROUPS
    notes = (f"{more:,} more groups in the JSON.",) if more > 0 else ()
    return Section("turns", "Turns of conversations", tables=[Table("Turns", columns, rows, notes=notes)])


def _turn_rows(turns: list[TurnSums]) -> Iterator[tuple[Cell, ...]]:
    last = max(turn.turn for turn in turns)
    first, width = 1, 1
    while first <= last:
        if first > _SINGLE_TURNS:
            width = first
        stop = min(first + width - 1, last)
        merged = [turn for turn in turns if first <= turn.turn <= stop]
        requests, tokens = sum(turn.requests for turn in merged), sum(turn.prompt_tokens for turn in merged)
        if requests:
            rate = sum(turn.hit_tokens for turn in merged) / max(tokens, 1)
            label = f"{first}" if first == stop else f"{first}-{stop}"
            yield label, f"{requests:,}", f"{tokens / requests:,.0f}", percent(rate), Figure("", rate)
        first = stop + 1
