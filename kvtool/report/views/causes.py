"""Causes of the losses of each group, and the gain of a fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.report import Cause, Group, Report, Unlock
from kvtool.text.terminal.numbers import percent

_MOST_GROUPS = 10
_MOST_ROWS = 8
_LEGEND = (
    "First: tokens that this cause blocks before any other. Share: each token divided by the causes that block it."
)
_RATES = "Alone: hit rate with this fix only. So far: with this fix and those above."
COLUMNS = (
    TableColumn("Place", "code", cut=True),
    TableColumn("Code", "word"),
    TableColumn("Values", "number", only="pages"),
    TableColumn("Requests", "number", only="pages"),
    TableColumn("First", "number"),
    TableColumn("Share", "number"),
    TableColumn("Alone", "number"),
    TableColumn("So far", "number"),
    TableColumn("Value", "prose", keep=0),
    TableColumn("Proof", only="pages"),
)
_ALONE, _SO_FAR, _VALUE = 6, 7, 8


def view(report: Report) -> Section | None:
    """Return a table for each group, the largest loss first.

    A single cause is for pages only, as its finding says all of it, and so are causes that all block little.
    """
    by_group: dict[str, list[Cause]] = {}
    for cause in report.causes:
        by_group.setdefault(cause.group, []).append(cause)
    groups = [group for group in report.groups if group.name in by_group]
    groups.sort(key=lambda group: -_lost(group, by_group[group.name]))
    # Those of several causes are first: all of the terminal's tables are among the first ones.
    groups.sort(key=lambda group: len(costliest_causes(group, by_group[group.name])) < 2)
    tables = [_table(group, by_group[group.name]) for group in groups[:_MOST_GROUPS]]
    if not tables:
        return None
    shown = [table for table in tables if table.only == "all"] or tables
    notes = [_LEGEND + (f" {_RATES}" if any(_has_rates(table) for table in shown) else "")]
    if len(groups) > len(tables):
        notes.append(f"{len(groups) - len(tables):,} more groups in the JSON.")
    last = tables.index(shown[-1])
    tables[last] = replace(tables[last], notes=tuple(notes))
    return Section("causes", "Causes and the gain of their fixes", tables=tables)


def costliest_causes(group: Group, causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes that have a row: those with a fix, and those that block a noticeable part of the group's tokens."""
    least = THRESHOLDS.warning_share * group.prompt_tokens
    return [row for row in causes if row.unlock is not None or row.blame_tokens >= least][:_MOST_ROWS]


def _lost(group: Group, causes: Iterable[Cause]) -> int:
    return sum(cause.share_tokens for cause in causes) + group.causes_left_out.share_tokens


def _has_rates(table: Table) -> bool:
    return any(column.head == "Alone" for column in table.columns)


def _table(group: Group, causes: list[Cause]) -> Table:
    costly, lost = costliest_causes(group, causes), _lost(group, causes)
    rows = costly or causes[:_MOST_ROWS]
    fixed = [row.unlock for row in rows if row.unlock is not None]
    cells = _told_apart([_cells(place, each) for place, each in _of_one_place(rows)])
    if group.causes_left_out.causes + len(causes) > len(rows):
        blame, share = lost - sum(row.blame_tokens for row in rows), lost - sum(row.share_tokens for row in rows)
        cells.append(("(others)", "", "", "", f"{blame:,}", f"{share:,}", "", "", "", ""))
    kept = [place for place in range(len(COLUMNS)) if fixed or place not in (_ALONE, _SO_FAR)]
    rate = f" (hit rate {percent(fixed[0].before)})" if fixed else ""
    return Table(
        f"Causes of {lost:,} lost tokens in {group.name}{rate}",
        tuple(COLUMNS[place] for place in kept),
        [tuple(row[place] for place in kept) for row in cells],
        only="all" if len(costly) > 1 else "pages",
        titled=True,
    )


def _of_one_place(rows: Iterable[Cause]) -> list[tuple[str, list[Cause]]]:
    """Return the causes of each row: those at one place are one row, but a fix has a row of its own."""
    found: list[tuple[str, list[Cause]]] = []
    for cause in rows:
        place = _place(cause)
        same = next((each for at, each in found if at == place and (cause.unlock is None or not _fixes(each))), None)
        if same is None:
            found.append((place, [cause]))
        else:
            same.append(cause)
    return found


def _fixes(causes: Iterable[Cause]) -> list[Unlock]:
    return [cause.unlock for cause in causes if cause.unlock is not None]


def _told_apart(cells: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows, those of one place with the value beside it: a narrow terminal leaves the column of values out."""
    counts = Counter(place for place, *_ in cells)
    return [(f"{row[0]} ({row[_VALUE]})" if counts[row[0]] > 1 else row[0], *row[1:]) for row in cells]


def _cells(place: str, causes: Sequence[Cause]) -> tuple[str, ...]:
    unlock = next(iter(_fixes(causes)), None)
    more = f" (moves {unlock.lines:,} lines)" if unlock is not None and unlock.lines > 1 else ""
    names = [f"{each.variable}, {each.name}" if each.variable is not None else each.name for each in causes]
    return (
        f"{place}{more}",
        ", ".join(dict.fromkeys(each.code for each in causes)),
        ", ".join(f"{each.distinct_values:,}" for each in causes),
        ", ".join(f"{each.requests:,}" for each in causes),
        f"{sum(each.blame_tokens for each in causes):,}",
        f"{sum(each.share_tokens for each in causes):,}",
        *(("", "") if unlock is None else (percent(unlock.alone), percent(unlock.after))),
        "; ".join(dict.fromkeys(names)),
        "not tried, or no gain" if unlock is None else f"{unlock.order}. {unlock.tier}",
    )


def _place(cause: Cause) -> str:
    """Return a line of a file that people edit, or the part of a logged request and the line in it."""
    if cause.in_source:
        return f"{cause.path}:{cause.line}"
    if cause.place:
        return cause.place
    part = cause.part or cause.path
    return f"{part}, line {cause.line_in_text + 1:,}" if cause.line_in_text else part
