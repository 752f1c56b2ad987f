"""Causes in the order of what they take, each once."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.measure.servers.causes.counter_causes import counter_causes
from kvtool.measure.servers.causes.event_causes import event_causes
from kvtool.measure.servers.causes.server_evidence import ServerEvidence
from kvtool.results.documents.server_cause import Basis, ServerCause

_SURE: Sequence[Basis] = ("counted", "shown", "at most", "possible")


def top_causes(evidence: ServerEvidence) -> list[ServerCause]:
    """Return the causes of servers without a log."""
    found = [*counter_causes(evidence), *event_causes(evidence)]
    return ordered(found, evidence.looked_up, proven=is_whole(evidence))


def is_whole(evidence: ServerEvidence) -> bool:
    """Return whether KV events count all losses of the span."""
    return evidence.losses is not None and evidence.losses.whole


def ordered(found: Sequence[ServerCause], counts: int | None, *, proven: bool) -> list[ServerCause]:
    """Return each cause once, in the order of what it takes of `counts` tokens; what takes less than users notice goes.

    `proven`: events or a log count what causes take, so what is only possible goes, too.
    """
    best: dict[str, ServerCause] = {}
    for each in found:
        if proven and each.basis == "possible":
            continue
        other = best.get(each.cause)
        if other is None or _key(each) < _key(other):
            best[each.cause] = each
    kept = [
        each
        for each in best.values()
        if each.tokens is None or share_of(each.tokens, counts) >= THRESHOLDS.warning_share
    ]
    return sorted(kept, key=lambda each: _order(each, counts))


def _key(each: ServerCause) -> tuple[int, int]:
    return _SURE.index(each.basis), -(each.tokens or 0)


def _order(each: ServerCause, counts: int | None) -> tuple[int, int]:
    costly = each.basis == "counted" and share_of(each.tokens or 0, counts) >= THRESHOLDS.error_share
    return 0 if costly else 1 + _SURE.index(each.basis), -(each.tokens or 0)


def share_of(tokens: int, counts: int | None) -> float:
    """Return the part of all tokens; 1 where nobody counts them."""
    return tokens / counts if counts else 1.0
