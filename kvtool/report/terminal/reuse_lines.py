"""What the KV cache's dtype gains and costs, and what reuse does to the logits, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvtool.profiler.profile import Profile
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from kvtool.measure.audit import AuditResult

_MOST_FLIPS = 10


def reuse_lines(profile: Profile, *, plain: bool = False) -> Iterator[str]:
    """What a KV cache dtype of its own gains, and what it costs in the logits."""
    gain = profile.dtype_gain
    if gain is not None:
        text = f"KV cache in {gain.dtype}: {gain.blocks:,} blocks instead of {gain.native_blocks:,} in {gain.native}"
        if gain.native_hit_rate is not None:
            text += f"; hit rate {percent(profile.total.hit_rate)} instead of {percent(gain.native_hit_rate)}"
        yield text
    measured = profile.measured
    if measured is not None and measured.price is not None and measured.price.tokens:
        price = measured.price
        yield (
            f"logits with a KV cache in {profile.config['kv_cache_dtype']}: {percent(price.relative_error)} of their spread off, "
            f"at most {price.max_difference:.2g}; {len(price.flips):,} of {plural(price.tokens, 'first token')} would be another"
        )
    if measured is not None and measured.reuse is not None:
        yield from _audit_lines(measured.reuse, exact=measured.exact, plain=plain)


def _audit_lines(audit: AuditResult, *, exact: bool, plain: bool) -> Iterator[str]:
    """What reuse changes in the logits; in fp32 it must change no token."""
    if not audit.tokens:
        yield "audit: nothing was compared"
        return
    verdict = "no token flips" if not audit.flips else f"{plural(len(audit.flips), 'token')} would be another"
    if exact and audit.flips:
        verdict += ", which must not happen"
    yield (
        f"audit of reuse: {plural(audit.requests, 'request')}, largest difference of logits {audit.max_difference:.2g}, "
        f"{verdict}; least margin {audit.least_margin:.2g}"
    )
    for flip in audit.flips[:_MOST_FLIPS]:
        yield (
            f"flip in {sanitize(flip.request, ascii_only=plain)} at position {flip.position}: margin {flip.margin:.2g}, "
            f"difference {flip.difference:.2g}"
        )
