"""Seconds to the first token: as the client measured them, as the server counted them, and as they are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from kvtool.measure.servers.metrics import metric_names as names
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.twin import TwinRun
from kvtool.results.documents.reconciliation import FirstTokens


def first_tokens(observed: ObservedRun, base: TwinRun, *, predicted: bool) -> FirstTokens | None:
    """`predicted`: whether the engine has a calibration of this server. None where nobody measured any."""
    measured: tuple[list[float], list[float]] = ([], [])
    engine: tuple[list[float], list[float]] = ([], [])
    for each in observed.exchanges:
        if not each.answered or each.first is None or each.sent is None or each.usage is None:
            continue
        warm = bool(each.usage.cached)
        measured[warm].append(max(each.first - each.sent, 0.0))
        if predicted and each.number in base.ttft:
            engine[warm].append(base.ttft[each.number])
    server, queue = _mean(observed, names.TTFT), _mean(observed, names.QUEUE)
    if not any(measured) and server is None:
        return None
    return FirstTokens(
        measured_cold=_median(measured[0]),
        measured_warm=_median(measured[1]),
        predicted_cold=_median(engine[0]),
        predicted_warm=_median(engine[1]),
        server_mean=server,
        queue_mean=queue,
    )


def _median(seconds: Sequence[float]) -> float | None:
    return median(seconds) if seconds else None


def _mean(observed: ObservedRun, name: str) -> float | None:
    if observed.counted is None:
        return None
    found = observed.counted.histograms.get(name)
    return None if found is None else found.mean
