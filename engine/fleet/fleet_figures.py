"""Figures of a fleet's run: hits, balance, waiting, and the requests that met the objectives."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from kvtool.engine.fleet.fleet_run import Counts, FleetRun, Seconds

DEFAULT_SHARE = 0.9
"""DistServe's attainment (Zhong et al., OSDI 2024): the rate at which 90 % of the requests meet every objective.

A trace often has a few prompts that are too long for any fleet; 0.99 would then be out of reach.
"""


@dataclass(frozen=True, slots=True)
class Slo:
    """Objectives of a request, in seconds. A fleet meets them if a `share` of all requests does."""

    ttft: float = inf
    tpot: float = inf
    share: float = DEFAULT_SHARE


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """Seconds, and requests per second. Quantiles are None where no request has such a time."""

    hit_rate: float
    """Hit blocks divided by blocks looked up, at first admissions."""
    imbalance: float
    """Prompt tokens computed by the replica that computed most, over the mean."""
    request_imbalance: float
    """The same of requests."""
    ttft_p50: float | None
    ttft_p99: float | None
    tpot_p50: float | None
    """Median over requests with two or more output tokens."""
    tpot_p99: float | None
    makespan: float
    """Seconds from the first arrival to the last token."""
    gpu_hours: float
    goodput: float | None
    """Requests per second of the makespan that met every objective, as in Dynamo and DistServe; None without objectives."""
    within_slo: float | None
    """Their share of all requests."""


def times_of(run: FleetRun) -> tuple[Seconds, Seconds]:
    """Return TTFT and TPOT by request; NaN for requests that are not served, and for the TPOT of a single token."""
    gaps = np.where(run.output_tokens > 1, run.output_tokens - 1, np.nan)
    return run.first_token - run.arrival, (run.finished - run.first_token) / gaps


def within(run: FleetRun, slo: Slo) -> npt.NDArray[np.bool_]:
    """Return by request whether it met every objective; a single token has no TPOT to miss."""
    ttft, tpot = times_of(run)
    return np.asarray((ttft <= slo.ttft) & ((tpot <= slo.tpot) | (run.output_tokens == 1)))


def fleet_figures(run: FleetRun, slo: Slo | None = None, *, gpus_each: int = 1) -> FleetFigures:
    """Return the figures of a run; `gpus_each` accelerators make a replica."""
    ttft, tpot = times_of(run)
    makespan = float(np.nanmax(run.finished) - run.arrival.min()) if run.served.any() else 0.0
    met = None if slo is None else int(np.count_nonzero(within(run, slo)))
    asked = run.references
    return FleetFigures(
        hit_rate=int(run.hit_blocks.sum()) / asked if asked else 0.0,
        imbalance=_imbalance(run, run.computed_tokens),
        request_imbalance=_imbalance(run, np.ones_like(run.replica)),
        ttft_p50=known_quantile(ttft, 0.5),
        ttft_p99=known_quantile(ttft, 0.99),
        tpot_p50=known_quantile(tpot, 0.5),
        tpot_p99=known_quantile(tpot, 0.99),
        makespan=makespan,
        gpu_hours=run.replicas * gpus_each * makespan / 3600,
        goodput=None if met is None else met / makespan if makespan else 0.0,
        within_slo=None if met is None else met / len(ttft) if len(ttft) else 0.0,
    )


def _imbalance(run: FleetRun, amounts: Counts) -> float:
    """Return the largest sum of a replica over the mean of all; 1 where there is nothing."""
    served = run.served
    sums = np.bincount(run.replica[served], weights=amounts[served], minlength=run.replicas)
    return float(sums.max() / sums.mean()) if sums.any() else 1.0


def known_quantile(seconds: Seconds, part: float) -> float | None:
    """Return the quantile without NaN; None if all are NaN."""
    known = seconds[~np.isnan(seconds)]
    return float(np.quantile(known, part)) if len(known) else None
