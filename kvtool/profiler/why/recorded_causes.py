"""Causes of a recorded session: why single requests hit other tokens than predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kvtool.measure.servers.causes.counter_causes import cause
from kvtool.results.documents.reconciliation import ReplayCause, ReplayDocument
from kvtool.results.documents.server_cause import CauseName, ServerCause
from kvtool.text.terminal.numbers import capitalized, plural

_CAUSES: Mapping[ReplayCause, CauseName] = {
    "other tokens": "other tokens",
    "other traffic": "other traffic",
    "restart": "restart",
    "replicas": "several servers",
    "reset": "cache reset",
}


def recorded_causes(replay: ReplayDocument, kind: str | None) -> Iterator[ServerCause]:
    """Yield what made requests hit less than predicted."""
    tokens: Counter[ReplayCause] = Counter()
    for each in replay.disagree:
        if each.predicted is not None and each.reported is not None:
            tokens[each.cause] += max(each.predicted - each.reported, 0)
    for found in replay.causes:
        if (name := _CAUSES.get(found.cause)) is None:
            continue
        why = f"{capitalized(found.why)}."
        if tokens[found.cause]:
            why = f"{plural(found.requests, 'request')} missed {plural(tokens[found.cause], 'token')}. {why}"
            yield cause(name, "counted", tokens[found.cause], why, kind, "answers")
        elif name != "other traffic":
            yield cause(name, "shown", None, why, kind, "answers")
