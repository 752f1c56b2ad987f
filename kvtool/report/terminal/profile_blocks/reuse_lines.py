"""What the KV cache's dtype gains and costs, and what reuse does to the logits, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from kvtool.results.report import Report
from kvtool.results.run_times import Logits
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import percent, plural

_MOST_FLIPS = 10


def reuse_lines(report: Report, *, plain: bool = False) -> Iterator[str]:
    """What a KV cache dtype of its own gains, and what it costs in the logits."""
    gain = report.kv_cache_dtype
    if gain is not None:
        text = (
            f"KV cache in {gain.dtype}: {gain.blocks:,} blocks instead of {gain.native_blocks:,} in {gain.native_dtype}"
        )
        if gain.native_hit_rate is not None:
            text += f"; hit rate {percent(gain.hit_rate)} instead of {percent(gain.native_hit_rate)}"
        yield text
    measured = report.ttft.measured
    price = None if measured is None else measured.kv_cache_dtype_error
    if price is not None and price.tokens:
        yield (
            f"logits with a KV cache in {report.config.get('kv_cache_dtype')}: {percent(_known(price.relative_error))} of their "
            f"spread off, at most {_known(price.max_difference):.2g}; {len(price.flips):,} of "
            f"{plural(price.tokens, 'first token')} would be another"
        )
    if measured is not None and measured.audit is not None:
        yield from _audit_lines(measured.audit, exact=measured.exact, plain=plain)


def _known(figure: float | None) -> float:
    """What no file can hold is infinite."""
    return inf if figure is None else figure


def _audit_lines(audit: Logits, *, exact: bool, plain: bool) -> Iterator[str]:
    """What reuse changes in the logits; in fp32 it must change no token."""
    if not audit.tokens:
        yield "audit: nothing was compared"
        return
    verdict = "no token flips" if not audit.flips else f"{plural(len(audit.flips), 'token')} would be another"
    if exact and audit.flips:
        verdict += ", which must not happen"
    yield (
        f"audit of reuse: {plural(audit.requests, 'request')}, largest difference of logits {_known(audit.max_difference):.2g}, "
        f"{verdict}; least margin {_known(audit.least_margin):.2g}"
    )
    for flip in audit.flips[:_MOST_FLIPS]:
        yield (
            f"flip in {sanitize(flip.request, ascii_only=plain)} at position {flip.position}: margin {_known(flip.margin):.2g}, "
            f"difference {_known(flip.difference):.2g}"
        )
