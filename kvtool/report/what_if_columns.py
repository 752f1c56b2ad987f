"""The columns of what-if's rows, each declared once for the terminal, pages and tables: what is changed, then what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kvtool.accounting.caches.cache_rules import lifetime
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import percent

POLICIES = {
    "lru": "LRU",
    "fifo": "FIFO",
    "lfu": "LFU",
    "sieve": "SIEVE",
    "s3fifo": "S3-FIFO",
    "arc": "ARC",
    "opt": "OPT",
}
"""Policies as papers write them."""


@dataclass(frozen=True, slots=True)
class RowColumn:
    """`cell` is empty where a row does not have it; a column of empty ones is not shown. `keep` is that of a terminal's column."""

    head: str
    cell: Callable[[SweepRow], str]
    kind: Literal["number", "word", "command"] = "number"
    keep: int | None = None


def columns(rows: Sequence[SweepRow]) -> list[RowColumn]:
    """Those that say something of these rows, in their order."""
    return [*settings(rows), *outcomes(rows)]


def settings(rows: Sequence[SweepRow]) -> list[RowColumn]:
    """What is changed."""
    return _said(_SETTINGS, rows)


def outcomes(rows: Sequence[SweepRow]) -> list[RowColumn]:
    """What comes of it, the hit rate first."""
    return _said(_OUTCOMES, rows)


def setting_of(row: SweepRow, shown: Sequence[RowColumn]) -> str:
    """What is changed, in a few words: `LRU, 1,000 blocks`."""
    return ", ".join(_in_words(column, text) for column in shown if (text := column.cell(row)))


def how_sure(row: SweepRow) -> str:
    """Counted, told from a sample with its error, predicted or a bound."""
    return row.sure if row.error is None else f"± {100 * row.error:.2f} points"


def moment(seconds: float) -> str:
    """Three digits: `1.63 s`, `14.3 s`, `850 ms`, `8.50 ms`."""
    value, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def per_second(amount: float) -> str:
    """Bytes each second, as links are sold: `14 GB/s`."""
    value, unit = (amount / 1e9, "GB/s") if amount >= 1e8 else (amount / 1e6, "MB/s")
    return f"{value:,.4g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _said(known: Sequence[RowColumn], rows: Sequence[SweepRow]) -> list[RowColumn]:
    return [column for column in known if any(column.cell(row) for row in rows)]


def _in_words(column: RowColumn, text: str) -> str:
    return text if column.kind == "word" or column.head in ("TTL", "bandwidth") else f"{text} {column.head}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _moment(value: float | None) -> str:
    return "" if value is None else moment(value)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _capacity(row: SweepRow) -> str:
    if row.capacity is None and row.axis in ("capacity", "policy"):
        return "unlimited"
    return _count(row.capacity)


_SETTINGS = (
    RowColumn("policy", lambda row: POLICIES[row.policy] if row.policy else "", "word"),
    RowColumn("block", lambda row: _count(row.block_size)),
    RowColumn("TTL", lambda row: "" if row.ttl_seconds is None else lifetime(row.ttl_seconds)),
    RowColumn("router", lambda row: row.routing or "", "word"),
    RowColumn("replicas", lambda row: _count(row.replicas)),
    RowColumn("prefill", lambda row: _count(row.prefill_replicas)),
    RowColumn("decode", lambda row: _count(row.decode_replicas)),
    RowColumn("host blocks", lambda row: _count(row.host_blocks)),
    RowColumn("disk blocks", lambda row: _count(row.disk_blocks)),
    RowColumn("bandwidth", lambda row: "" if row.bandwidth is None else per_second(row.bandwidth)),
    RowColumn("blocks", _capacity),
)
_OUTCOMES = (
    RowColumn("hit rate", lambda row: percent(row.hit_rate)),
    RowColumn("hit blocks", lambda row: f"{row.hit_blocks:,.0f}", keep=1),
    RowColumn("imbalance", lambda row: _ratio(row.imbalance), keep=4),
    RowColumn("of requests", lambda row: _ratio(row.request_imbalance), keep=0),
    RowColumn("TTFT p50", lambda row: _moment(row.ttft_p50), keep=3),
    RowColumn("TTFT p99", lambda row: _moment(row.ttft_p99)),
    RowColumn("TPOT p50", lambda row: _moment(row.tpot_p50), keep=0),
    RowColumn("TPOT p99", lambda row: _moment(row.tpot_p99), keep=5),
    RowColumn("goodput", lambda row: "" if row.goodput is None else f"{row.goodput:,.2f}/s", keep=6),
    RowColumn("in SLO", lambda row: "" if row.within_slo is None else percent(row.within_slo), keep=6),
    RowColumn("GPUs", lambda row: _count(row.gpus)),
    RowColumn("sure?", how_sure, "word", keep=2),
    RowColumn("command", lambda row: row.command or "", "command"),
)
