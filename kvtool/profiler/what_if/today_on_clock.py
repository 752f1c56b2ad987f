"""What a workload's own settings come to on the clock: the first row of the table, for who demands something of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvtool.engine.fleet.fleet_figures import Slo
from kvtool.errors import KvtoolError
from kvtool.profiler.opening import Opened
from kvtool.profiler.what_if.arrival_times import check_arrivals
from kvtool.profiler.what_if.planned_change import PlannedChange, fitting
from kvtool.profiler.what_if.planning_pass import block_trace
from kvtool.profiler.what_if.table_clock import ROUND_ROBIN, TableClock, TableFleet
from kvtool.results.choices import Routing
from kvtool.text.terminal.progress import Progress

_ROUTERS: dict[Routing, str] = {
    "round-robin": ROUND_ROBIN,
    "random": "random",
    "sticky": "session-ring",
    "prefix-aware": "longest-prefix",
}
"""The routers of a fleet that do what the routings of `kvtool profile` do."""


@dataclass(frozen=True, slots=True)
class TodayOnClock:
    """Accelerators for the objectives (None: no fleet that was tried meets them), and requests per second within them."""

    gpus: int | None
    goodput: float


def today_on_clock(opened: Opened, slo: Slo, progress: Progress) -> TodayOnClock:
    """KvtoolError where requests have no times, or where a clock does not follow what the plan says."""
    plan = opened.planned.plan
    if plan.engine.plan is not None or plan.rules != "vllm" or (plan.cache is not None and plan.cache.hosted):
        raise KvtoolError(
            f"{opened.name}: GPUs and goodput follow vLLM's rules with one group of layers",
            hint="leave these demands out",
        )
    trace, _ = block_trace(opened, progress)
    if np.isnan(trace.arrivals).any():
        raise KvtoolError(
            f"{opened.name}: GPUs and goodput need arrival times, and not all requests have one",
            hint="a log with timestamps, or arrivals in the workload; else leave these demands out",
        )
    trace = trace.only(fitting(trace, plan))
    if not len(trace):
        raise KvtoolError(f"{opened.name}: every request is longer than the cache, or than the model takes")
    check_arrivals(trace, "a clock")
    rules = plan.cache
    router = ROUND_ROBIN if rules is None else _ROUTERS[rules.routing]
    fleet = TableFleet(replicas=1 if rules is None else rules.replicas, routing=(router,), slo=slo)
    served = TableClock(fleet, plan.seed).served(PlannedChange("today", "today", "", trace, plan))
    gpus = None if served.search is None else served.search.gpus(plan.latency.tensor_parallel)
    return TodayOnClock(gpus, served.figures.goodput or 0.0)
