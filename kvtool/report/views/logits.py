"""Data type of the KV cache: its gain, and the changes of logits by it and by reuse."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.report.views.section import Section
from kvtool.results.report import Report
from kvtool.results.run_times import Logits
from kvtool.text.terminal.numbers import percent, plural

_MOST_FLIPS = 10


def view(report: Report) -> Section | None:
    """Return it as sentences; None where no data type was chosen and nothing was audited."""
    notes = tuple(_notes(report))
    return Section("logits", "KV cache data type and logits", notes=notes) if notes else None


def _notes(report: Report) -> Iterator[str]:
    gain, measured = report.kv_cache_dtype, report.ttft.measured
    if gain is not None:
        text = (
            f"KV cache in {gain.dtype}: {gain.blocks:,} blocks instead of {gain.native_blocks:,} in {gain.native_dtype}"
        )
        if gain.native_hit_rate is not None:
            text += f", hit rate {percent(gain.hit_rate)} instead of {percent(gain.native_hit_rate)}"
        yield f"{text}."
    if measured is None:
        return
    price = measured.kv_cache_dtype_error
    if price is not None and price.tokens:
        off = "unbounded" if price.relative_error is None else f"{percent(price.relative_error)} of their spread"
        yield (
            f"Logits with a KV cache in {report.config.get('kv_cache_dtype')}: error {off}, at most "
            f"{_figure(price.max_difference)}; "
            f"{len(price.flips):,} of {plural(price.tokens, 'first token')} differ."
        )
    if measured.audit is not None:
        yield from _audit_notes(measured.audit, exact=measured.exact)


def _audit_notes(audit: Logits, *, exact: bool) -> Iterator[str]:
    """Say what reuse changes in the logits; with exact arithmetic (fp32) it must change no token."""
    if not audit.tokens:
        yield "Reuse audit: nothing was compared."
        return
    verdict = "no token changes" if not audit.flips else f"{plural(len(audit.flips), 'token')} changed"
    if exact and audit.flips:
        verdict += " (an error: fp32 must be exact)"
    yield (
        f"Reuse audit: {plural(audit.requests, 'request')}, largest logit difference {_figure(audit.max_difference)}, "
        f"{verdict}; smallest margin {_figure(audit.least_margin)}."
    )
    for flip in audit.flips[:_MOST_FLIPS]:
        yield (
            f"Changed in {flip.request} at position {flip.position:,}: token {flip.expected} became {flip.actual}, margin "
            f"{_figure(flip.margin)}, difference {_figure(flip.difference)}."
        )
    if len(audit.flips) > _MOST_FLIPS:
        yield f"{plural(len(audit.flips) - _MOST_FLIPS, 'more changed token')}."


def _figure(value: float | None) -> str:
    """Return a figure with two digits; what no file can contain is infinite."""
    return "infinite" if value is None else f"{value:.2g}"
