"""The columns of what-if's rows, each declared once: the changed settings, then their outcomes; and tables of such rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from kvtool.accounting.caches.cache_rules import lifetime
from kvtool.accounting.prices.bill import shown_money
from kvtool.report.views.section import Only, Table, TableColumn
from kvtool.report.words.what_if_commands import flags_again
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import capitalized, per_second, percent

POLICIES = {
    "lru": "LRU",
    "fifo": "FIFO",
    "lfu": "LFU",
    "slru": "SLRU",
    "priority": "priority",
    "opt": "OPT",
}
"""Policies as papers write them, and priorities of requests."""
_BASES = {"predicted": "estimate", "bound": "upper bound", "rules": "published rules"}
_MOST_ROWS = 200
_MANY_ROWS = 40


@dataclass(frozen=True, slots=True)
class RowColumn:
    """`cell` is empty where a row does not have it; a column of empty cells is left out. `keep` and `only` are those of a table."""

    head: str
    cell: Callable[[SweepRow], str]
    kind: str = "number"
    keep: int | None = None
    only: Only = "all"


def rows_table(caption: str, rows: Sequence[SweepRow], most: int = _MOST_ROWS) -> Table:
    """Return a sweep's rows, what they differ in and what comes of it; folded where they are many."""
    shown = [*settings(rows), *(column for column in outcomes(rows) if column.kind != "code")]
    return _table(caption, shown, rows, most)


def changes_table(rows: Sequence[SweepRow], most: int = _MOST_ROWS) -> Table:
    """Return the changes that were tried, today's first, each with the flags that repeat it."""
    today = rows[0].computed_tokens or 1
    shown = [
        replace(each, keep=_KEEP.get(each.head), only="pages" if each.head in _ON_PAGES else "all")
        for each in outcomes(rows)
        if each.kind != "code"
    ]
    shown = [
        replace(each, cell=lambda row: percent((row.computed_tokens or 0) / today)) if each.head == "computed" else each
        for each in shown
    ]
    table = _table("Changes", [_CHANGE, *shown], rows, most)
    if not any(row.command for row in rows):
        return table
    cells = [(*of_row, flags) for of_row, flags in zip(table.rows, flags_again(rows), strict=False)]
    return replace(table, columns=(*table.columns, TableColumn("Run it", "code", "run it", keep=0)), rows=cells)


def _table(caption: str, shown: Sequence[RowColumn], rows: Sequence[SweepRow], most: int) -> Table:
    return Table(
        caption,
        tuple(TableColumn(_capital(each.head), each.kind, each.head, each.keep, each.only) for each in shown),
        [tuple(each.cell(row) for each in shown) for row in rows[:most]],
        more=max(len(rows) - most, 0),
        folded=len(rows) > _MANY_ROWS,
    )


def _capital(head: str) -> str:
    return capitalized(head)


def row_commands(rows: Sequence[SweepRow]) -> list[tuple[str, str]]:
    """Return the commands that repeat rows, each with what its row changes."""
    shown = settings(rows)
    return [(setting_of(row, shown) or "this row", row.command) for row in rows[:_MOST_ROWS] if row.command]


def settings(rows: Sequence[SweepRow]) -> list[RowColumn]:
    """Return what is changed; what all rows of a fleet with tiers or splits share is left to the notes."""
    if any(row.change for row in rows):
        return [_CHANGE]
    shown = _filled(_SETTINGS, rows)
    if len(rows) < 2 or rows[0].axis not in ("tier", "pd"):
        return shown
    return [column for column in shown if column.head not in _OF_ALL or len({column.cell(row) for row in rows}) > 1]


def outcomes(rows: Sequence[SweepRow]) -> list[RowColumn]:
    """Return what comes of it, the hit rate first."""
    return _filled(_OUTCOMES, rows)


def setting_of(row: SweepRow, shown: Sequence[RowColumn]) -> str:
    """Return what is changed, in a few words: `LRU, 1,000 blocks`."""
    return ", ".join(_in_words(column, text) for column in shown if (text := column.cell(row)))


def basis_of(row: SweepRow) -> str:
    """Return the basis of a row: exact, its error where blocks were sampled, estimate, or upper bound."""
    return _BASES.get(row.sure, row.sure) if row.error is None else f"± {100 * row.error:.2f} points"


def moment(seconds: float) -> str:
    """Return a time with three digits: `1.63 s`, `14.3 s`, `850 ms`, `8.50 ms`."""
    value, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def level_moment(seconds: float) -> str:
    """Return a round time, at a line of a chart: `20 s`, `500 ms`."""
    if not seconds:
        return "0"
    return f"{seconds:,.6g} s" if seconds >= 1 else f"{1000 * seconds:.6g} ms"


def _filled(known: Sequence[RowColumn], rows: Sequence[SweepRow]) -> list[RowColumn]:
    return [column for column in known if any(column.cell(row) for row in rows)]


def _in_words(column: RowColumn, text: str) -> str:
    return text if column.kind in ("word", "text") or column.head in ("TTL", "bandwidth") else f"{text} {column.head}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _moment(value: float | None) -> str:
    return "" if value is None else moment(value)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _capacity(row: SweepRow) -> str:
    if row.capacity is None and (row.kind is not None or row.axis in ("capacity", "policy")):
        return "unlimited"
    return _count(row.capacity)


def _prefill(row: SweepRow) -> str:
    """Return the replicas for prefill of a split fleet."""
    return "mixed" if row.axis == "pd" and row.prefill_replicas is None else _count(row.prefill_replicas)


def _bandwidth(row: SweepRow) -> str:
    """Return the bandwidth of a link, where there is one."""
    if row.bandwidth is not None:
        return per_second(row.bandwidth)
    timed = row.ttft_p99 is not None
    return "unlimited" if timed and (row.host_blocks or row.prefill_replicas) else ""


_CHANGE = RowColumn("change", lambda row: row.change or "", "text")
_SETTINGS = (
    RowColumn("change", lambda row: row.change or "", "word"),
    RowColumn("policy", lambda row: POLICIES[row.policy] if row.policy else "", "word"),
    RowColumn("block", lambda row: _count(row.block_size)),
    RowColumn("TTL", lambda row: "" if row.ttl_seconds is None else lifetime(row.ttl_seconds)),
    RowColumn("router", lambda row: row.routing or "", "text"),
    RowColumn("replicas", lambda row: _count(row.replicas)),
    RowColumn("prefill", _prefill),
    RowColumn("decode", lambda row: _count(row.decode_replicas)),
    RowColumn("host blocks", lambda row: _count(row.host_blocks)),
    RowColumn("disk blocks", lambda row: _count(row.disk_blocks)),
    RowColumn("bandwidth", _bandwidth),
    RowColumn("blocks", _capacity),
)
_OF_ALL = ("replicas", "disk blocks", "blocks")
_OUTCOMES = (
    RowColumn("hit rate", lambda row: percent(row.hit_rate)),
    RowColumn("cost", lambda row: "" if row.cost is None else shown_money(Decimal(row.cost))),
    RowColumn("computed", lambda row: _count(row.computed_tokens) if row.change else ""),
    RowColumn("loaded", lambda row: "" if row.loaded_rate is None else percent(row.loaded_rate)),
    RowColumn("hit blocks", lambda row: "" if row.change else f"{row.hit_blocks:,.0f}", keep=1),
    RowColumn(
        "break-even", lambda row: "" if row.break_even_tokens is None else f"{row.break_even_tokens:,} tokens", keep=3
    ),
    RowColumn("imbalance", lambda row: _ratio(row.imbalance), keep=7),
    RowColumn("imbalance, requests", lambda row: _ratio(row.request_imbalance), keep=0),
    RowColumn("TTFT p50", lambda row: _moment(row.ttft_p50), keep=3),
    RowColumn("TTFT p99", lambda row: _moment(row.ttft_p99)),
    RowColumn("transfer p99", lambda row: _moment(row.transfer_p99), keep=4),
    RowColumn("TPOT p50", lambda row: _moment(row.tpot_p50), keep=0),
    RowColumn("TPOT p99", lambda row: _moment(row.tpot_p99), keep=5),
    RowColumn("goodput", lambda row: "" if row.goodput is None else f"{row.goodput:,.2f}/s", keep=8),
    RowColumn("in SLO", lambda row: "" if row.within_slo is None else percent(row.within_slo), keep=6),
    RowColumn("GPUs", lambda row: _count(row.gpus)),
    RowColumn("basis", basis_of, "word", keep=2),
    RowColumn("command", lambda row: row.command or "", "code"),
)
_KEEP = {"computed": 3, "loaded": 0, "imbalance": 1, "TTFT p50": 4, "TPOT p99": 2, "goodput": 5}
_ON_PAGES = ("imbalance, requests", "transfer p99", "TPOT p50", "in SLO")
"""Outcomes of changes that have no room in a terminal."""
