"""Facts of a run: the rules it followed, and what must be known before its figures are used."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.results.report import Report
from kvtool.text.terminal.numbers import plural


def rules_fact(report: Report) -> str:
    """Name the rules of the cache, and the block size where they have one."""
    if report.config.get("rules_by_day"):
        return "rules of the providers"
    if report.config.get("rules_of"):
        return f"{report.config.get('rules')} rules"
    return f"{report.config.get('rules')} rules, block {report.kv_cache.block_size:,}"


def cautions(report: Report) -> Iterator[str]:
    """Say what is left out of the figures."""
    totals = report.totals
    if totals.refused_requests:
        first = totals.first_refusal or ""
        yield f"{plural(totals.refused_requests, 'request')} refused and left out; the first: {first}"
    if totals.skipped_lines:
        yield f"{plural(totals.skipped_lines, 'bad line')} skipped."
