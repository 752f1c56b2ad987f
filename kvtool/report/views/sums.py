"""Token sums by session, tenant or line, as `--by` asks."""

from __future__ import annotations

from collections import Counter

from kvtool.accounting.ledger.sums import OTHERS
from kvtool.report.views.fates import fate_name
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.choices import TokensBy
from kvtool.results.report import Report, SumRow
from kvtool.text.terminal.numbers import percent, plural

_MOST_ROWS = 20
"""They fit on a screen."""


def view(report: Report) -> Section | None:
    """Return the rows that lost most, the rest as one, and what the columns sum to."""
    sums = report.sums
    if sums is None:
        return None
    rows = costliest(sums.rows)
    columns = (
        TableColumn(sums.by.title(), "code", cut=True),
        TableColumn("Requests", "number"),
        TableColumn("Tokens", "number"),
        TableColumn("Hit rate", "number"),
        TableColumn("Lost", "number"),
        TableColumn("Largest loss", keep=1),
        TableColumn("Second", keep=0),
    )
    tokens, lost = sum(row.prompt_tokens for row in rows), sum(row.lost_tokens for row in rows)
    note = f"Sums: {tokens:,} tokens, {lost:,} lost, equal to those of all requests."
    more = len(sums.rows) - len(rows) + 1
    if more > 1:
        note += f" {OTHERS}: {plural(more, sums.by)}."
    if sums.by == "line":
        note += " A request counts in each line that it contains."
    table = Table(f"Tokens by {sums.by}", columns, [_cells(row, sums.by) for row in rows])
    return Section("sums", table.caption, tables=[table], notes=(note,))


def costliest(rows: list[SumRow], most: int = _MOST_ROWS) -> list[SumRow]:
    """Return the rows that lost most, in that order, and the sum of all others as the last one."""
    named = [row for row in rows if row.key != OTHERS]
    rest = named[most:] + [row for row in rows if row.key == OTHERS]
    if not rest:
        return named
    fates: Counter[str] = Counter()
    for row in rest:
        fates.update(row.fates)
    tokens, hit = sum(row.prompt_tokens for row in rest), sum(row.hit_tokens for row in rest)
    others = SumRow(
        key=OTHERS,
        requests=sum(row.requests for row in rest),
        prompt_tokens=tokens,
        hit_tokens=hit,
        hit_rate=hit / tokens if tokens else 0.0,
        lost_tokens=sum(row.lost_tokens for row in rest),
        fates=fates,
    )
    return [*named[:most], others]


def _cells(row: SumRow, by: TokensBy) -> tuple[str, ...]:
    """Return the cells of a row, with the two fates that took most of its tokens."""
    lost = sorted(((-count, fate) for fate, count in row.fates.items() if count and fate != "hit"))
    fates = [
        f"{fate_name(fate).partition(' (')[0]} {percent(-count / max(row.prompt_tokens, 1))}"
        for count, fate in lost[:2]
    ]
    several = row.key == OTHERS and by == "line"  # whose requests would count more than once
    return (
        row.key,
        "" if several else f"{row.requests:,}",
        f"{row.prompt_tokens:,}",
        percent(row.hit_rate),
        f"{row.lost_tokens:,}",
        *fates,
        *[""] * (2 - len(fates)),
    )
