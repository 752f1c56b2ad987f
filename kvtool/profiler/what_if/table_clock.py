"""The clock of the table's rows: each change served by a fleet after a router, as its requests came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from kvtool.engine.fleet.fleet_figures import FleetFigures, Slo, fleet_figures
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import RouterView
from kvtool.engine.fleet.fleet_run import FleetRun
from kvtool.engine.fleet.gpu_search import FleetSearch
from kvtool.engine.fleet.routers.known_routers import ROUTERS
from kvtool.engine.fleet.routers.named_router import NamedRouter
from kvtool.errors import KvtoolError
from kvtool.profiler.opening import Opened
from kvtool.profiler.what_if.fleet_rows import FleetPlan, fleet_requests, named_router
from kvtool.profiler.what_if.fleet_sweeps import SplitOptions, serve_by_two_pools, split_fields, split_order
from kvtool.profiler.what_if.planned_change import Flags, PlannedChange, fitting
from kvtool.profiler.what_if.planning_pass import block_trace, check_arrivals
from kvtool.profiler.what_if.tier_rows import host_tier, tier_fields
from kvtool.results.choices import Routing
from kvtool.results.documents.what_if import MissingRow
from kvtool.text.terminal.numbers import per_second
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockTrace

ROUND_ROBIN = "round-robin"
"""The router of a load balancer that knows nothing of caches."""
SPLIT = "prefill/decode split"
_ROUTERS: dict[Routing, str] = {
    "round-robin": ROUND_ROBIN,
    "random": "random",
    "sticky": "session-ring",
    "prefix-aware": "longest-prefix",
}
"""The routers of a fleet that do what the routings of `kvtool profile` do."""


@dataclass(frozen=True, slots=True)
class TableFleet:
    """Today's fleet, what requests are to be served within, and how many times as fast as in the log they come.

    `routing` has the routers that are tried, None: those that there are; the first of one alone is today's.
    """

    replicas: int = 1
    routing: Sequence[str] | None = None
    view: RouterView | None = None
    slo: Slo | None = None
    speedup: float = 1.0


@dataclass(frozen=True, slots=True)
class Clocked:
    """A change on the clock. `search` is there where there are objectives, but for a split fleet: that one is not sought."""

    run: FleetRun
    figures: FleetFigures
    search: FleetSearch | None
    built: dict[str, object]
    """Fields of a row that has tiers, or a fleet that is split."""


@dataclass(slots=True)
class TableClock:
    """Serves changes; requests of a trace are made once for all changes that leave them as they are."""

    asked: TableFleet
    seed: int
    _tried: dict[str, FleetRun] = field(default_factory=dict)
    """Today's requests by routers that were tried, today's among them."""
    _split: Clocked | None = None
    """Today's requests by the best split fleet."""
    _requests: dict[int, tuple[BlockTrace, list[FleetRequest]]] = field(default_factory=dict)
    """By the identity of a trace, which is kept with them."""

    @property
    def today(self) -> str:
        """Return the router as things are."""
        named = self.asked.routing
        return named[0] if named is not None and len(named) == 1 else ROUND_ROBIN

    def served(self, change: PlannedChange) -> Clocked:
        """Return the change's requests through its fleet. KvtoolError for a request that could never run, and for a router
        unknown.
        """
        plan, router = self._plan(change), self.router(change.routing or self.today)
        replicas, slo = change.replicas or self.asked.replicas, self.asked.slo
        if change.prefill is not None:
            assert self._split is not None, "it was the best of those that were tried"
            return self._split
        known = self._tried.get(router.name) if change.kind in ("today", "routing") else None
        run = known or plan.serve_by(router, replicas, self.seed)
        search = None if slo is None else plan.smallest_by(router, self.seed)
        built = {} if change.tiers is None else tier_fields(plan, change.tiers, run)
        return Clocked(run, self._figures(run, plan), search, built)

    def _figures(self, run: FleetRun, plan: FleetPlan) -> FleetFigures:
        return fleet_figures(run, self.asked.slo, gpus_each=plan.gpus_each)

    def changes(
        self, today: PlannedChange, missing: list[MissingRow], *, swept: bool = True
    ) -> Iterator[PlannedChange]:
        """Yield a replica more, host memory, and of those tried the router and the split fleet whose requests wait least.

        `swept`: whether sweeps, which give the rows of tiers and split fleets again, take the same requests.
        """
        more = self.asked.replicas + 1
        yield replace(
            today,
            kind="replicas",
            name="+ 1 replica",
            does=f"use {more:,} replicas instead of {more - 1:,}, with {self.today}",
            replicas=more,
            flags={"replicas": more},
            more_hardware=True,
        )
        routed: Flags = {"routing": self.today}
        yield from host_tier(today, missing, routed if swept else None)
        yield from self._best_split(today, missing, routed if swept else None)
        if self.asked.replicas == 1:
            missing.append(MissingRow(change="router", why="one replica leaves nothing to choose: set --replicas N"))
            return
        sessions = bool((today.trace.sessions >= 0).any() or (today.trace.salts >= 0).any())
        if not sessions:
            missing.append(
                MissingRow(
                    change="router session-ring",
                    why="no request has a session or a tenant, which this router needs",
                )
            )
        best = self._best_router(today, sessions=sessions)
        if best is not None:
            yield best

    def _best_router(self, today: PlannedChange, *, sessions: bool) -> PlannedChange | None:
        named = self.asked.routing
        names = [name for name, kind in ROUTERS.items() if kind.usual] if named is None or len(named) == 1 else named
        routers = [
            router for name in names if name != self.today and (router := self.router(name)).settings is not None
        ]
        tried = [router for router in routers if sessions or not router.kind.needs_sessions]
        if not tried:
            return None
        plan = self._plan(today)
        self._tried |= {router.name: plan.serve_by(router, self.asked.replicas, self.seed) for router in tried}
        best = min(tried, key=lambda router: _waiting(self._tried[router.name]))
        version = f" ({best.kind.version})" if best.kind.version else ""
        return replace(
            today,
            kind="routing",
            name=f"router {best.name}",
            does=f"route by {best.name}{version} instead of {self.today} (best of {len(tried)} tested)",
            routing=best.name,
            flags={"routing": best.name},
        )

    def _best_split(
        self, today: PlannedChange, missing: list[MissingRow], flags: Flags | None
    ) -> Iterator[PlannedChange]:
        replicas, link = self.asked.replicas, today.plan.latency.accelerator.link
        if replicas == 1:
            missing.append(MissingRow(change=SPLIT, why="one replica cannot be split: set --replicas N"))
            return
        if not link:
            name = today.plan.latency.accelerator.name
            why = f"the link between replicas of {name} is unknown: use --sweep pd --link-bandwidth 50GB/s"
            missing.append(MissingRow(change=SPLIT, why=why))
            return
        plan, router = self._plan(today), self.router(self.today)
        mixed = self._tried[router.name] = plan.serve_by(router, replicas, self.seed)
        asked, token_bytes = SplitOptions(replicas, link), today.plan.token_bytes
        assert token_bytes is not None, "a table with a clock has a known model"
        cuts = range(1, replicas)
        tried = {cut: serve_by_two_pools(plan, asked, cut, token_bytes, router, self.seed) for cut in cuts}
        figures = {cut: self._figures(split.run, plan) for cut, split in tried.items()}
        whole = self._figures(mixed, plan)
        best = min(cuts, key=lambda cut: split_order(figures[cut], whole))
        self._split = Clocked(tried[best].run, figures[best], None, split_fields(tried[best], asked, best))
        ways = f" (best of {len(tried)} tested)" if len(tried) > 1 else ""
        yield replace(
            today,
            kind="pd",
            name=f"prefill/decode split {best} + {replicas - best}",
            does=f"compute prompts on {best:,} of the {replicas:,} replicas and answer on {replicas - best:,}{ways}, over one "
            f"link of {per_second(link)}",
            prefill=best,
            flags=None if flags is None else {"sweep": "pd", "replicas": replicas, **flags},
        )

    def _plan(self, change: PlannedChange) -> FleetPlan:
        known = self._requests.get(id(change.trace))
        if known is None:
            known = self._requests[id(change.trace)] = change.trace, fleet_requests(change.trace, self.asked.speedup)
        return FleetPlan(known[1], change.plan.engine, change.plan.latency, self.asked.slo, change.tiers)

    def router(self, name: str) -> NamedRouter:
        """Return the router of a name; KvtoolError where there is none."""
        return named_router(name, self.asked.view)


def _waiting(run: FleetRun) -> tuple[float, float]:
    """Return what the table sorts routers by."""
    figures = fleet_figures(run)
    return figures.ttft_p99 or inf, figures.ttft_p50 or inf


@dataclass(frozen=True, slots=True)
class TodayOnClock:
    """Accelerators for the objectives (None: no fleet that was tried meets them), and requests per second within them."""

    gpus: int | None
    goodput: float


def today_on_clock(opened: Opened, slo: Slo, progress: Progress) -> TodayOnClock:
    """Raise KvtoolError where requests have no times, or where a clock does not follow what the plan says."""
    plan = opened.planned.plan
    if plan.engine.plan is not None or not plan.by_engine or plan.hosted:
        raise KvtoolError(
            f"{opened.name}: GPUs and goodput support only vLLM's rules with full attention",
            hint="omit these demands",
        )
    opened.planned.check_known("a demand on GPUs or goodput")
    trace, _ = block_trace(opened, progress)
    if np.isnan(trace.arrivals).any():
        raise KvtoolError(
            f"{opened.name}: GPUs and goodput need arrival times, and some requests have none",
            hint="use a log with timestamps, or arrivals in the workload; else omit these demands",
        )
    trace = trace.only(fitting(trace, plan))
    if not len(trace):
        raise KvtoolError(f"{opened.name}: every request is longer than the cache or the context of the model")
    check_arrivals(trace, "a clock")
    rules = plan.cache
    router = ROUND_ROBIN if rules is None else _ROUTERS[rules.routing]
    fleet = TableFleet(replicas=1 if rules is None else rules.replicas, routing=(router,), slo=slo)
    served = TableClock(fleet, plan.seed).served(PlannedChange("today", "today", "", trace, plan))
    gpus = None if served.search is None else served.search.gpus(plan.latency.tensor_parallel)
    return TodayOnClock(gpus, served.figures.goodput or 0.0)
