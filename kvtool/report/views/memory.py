"""The memory that the KV cache took."""

from __future__ import annotations

from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import plural, size

_COLUMNS = (TableColumn("KV cache"), TableColumn("Count", "number"), TableColumn("Memory", "number"))


def view(report: Report) -> Section:
    """Return blocks and bytes, and what was evicted or preempted."""
    cache, totals = report.kv_cache, report.totals
    happened = (("Evictions", totals.evictions), ("Preemptions", totals.preemptions))
    rows = [
        ("Block", plural(cache.block_size, "token"), size(cache.bytes_per_block)),
        ("Filled", plural(cache.filled_blocks, "block"), size(cache.filled_blocks * cache.bytes_per_block)),
        ("Peak in use", plural(cache.peak_used_blocks, "block"), size(cache.peak_used_blocks * cache.bytes_per_block)),
        ("Reused", plural(totals.hit_tokens, "token"), size(cache.reused_bytes)),
        *((name, f"{count:,}", "") for name, count in happened if count),
    ]
    return Section("memory", "KV cache", tables=[Table("KV cache", _COLUMNS, rows)])
