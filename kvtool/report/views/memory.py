"""The memory that the KV cache took."""

from __future__ import annotations

from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.report.views.times import model_of
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import plural, size

_COLUMNS = (TableColumn("KV cache"), TableColumn("Count", "number"), TableColumn("Memory", "number"))


def blocks_and_memory(report: Report, blocks: int) -> str:
    """Return a number of blocks, with the memory that they take where it is known."""
    each, shown = report.kv_cache.bytes_per_block, plural(blocks, "block")
    return shown if each is None else f"{shown}, {size(blocks * each)}"


def view(report: Report) -> Section:
    """Return blocks and bytes, and what was evicted or preempted."""
    cache, totals, each = report.kv_cache, report.totals, report.kv_cache.bytes_per_block

    def held(blocks: int) -> str:
        return "" if each is None else size(blocks * each)

    happened = (("Evictions", totals.evictions), ("Preemptions", totals.preemptions))
    reused = "" if cache.reused_bytes is None else size(cache.reused_bytes)
    rows = [
        ("Block", plural(cache.block_size, "token"), held(1)),
        ("Filled", plural(cache.filled_blocks, "block"), held(cache.filled_blocks)),
        ("Peak in use", plural(cache.peak_used_blocks, "block"), held(cache.peak_used_blocks)),
        ("Reused, not computed again", plural(totals.hit_tokens, "token"), reused),
        *((name, f"{count:,}", "") for name, count in happened if count),
    ]
    columns = _COLUMNS if any(row[-1] for row in rows) else _COLUMNS[:-1]
    note = f"Memory of {model_of(report)}." if reused else "No memory: the size of a model is unknown."
    table = Table("KV cache", columns, [row[: len(columns)] for row in rows])
    return Section("memory", "KV cache", tables=[table], notes=(note,))
