"""Rows with a clock: the requests of a trace served by a fleet, as the latency model says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.fleet import serve
from kvtool.engine.fleet.fleet_figures import FleetFigures, Slo, fleet_figures
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, RouterView
from kvtool.engine.fleet.fleet_run import FleetRun
from kvtool.engine.fleet.gpu_search import MOST_REPLICAS, FleetSearch, attainable, smallest_fleet
from kvtool.engine.fleet.missed_slo import MissedSlo
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.fleet.routers.named_router import NamedRouter, asked_router
from kvtool.engine.fleet.tier_plan import TierPlan
from kvtool.engine.fleet.tiered_replica import TieredReplica
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.errors import KvtoolError
from kvtool.profiler.planned_run import PlannedRun
from kvtool.profiler.what_if.planning_pass import check_arrivals
from kvtool.results.choices import Axis
from kvtool.results.documents.what_if import SweepRow
from kvtool.workload.block_trace import BlockTrace


def fleet_requests(trace: BlockTrace, speedup: float = 1.0) -> list[FleetRequest]:
    """Return the requests of a trace, their full blocks, and when they come, `speedup` times as fast as they did.

    KvtoolError where the trace does not say when. An answer has at least one token.
    """
    check_arrivals(trace, "a clock")
    asked = trace.of_engine()
    numbers, bounds = asked.numbers.tolist(), pairwise(asked.starts.tolist())
    start = float(trace.arrivals[0]) if len(trace) else 0.0
    rows = zip(
        ((trace.arrivals - start) / speedup).tolist(),
        bounds,
        asked.asked.tolist(),
        trace.prompt_tokens.tolist(),
        trace.output_tokens.tolist(),
        trace.sessions.tolist(),
        trace.salts.tolist(),
        strict=True,
    )
    return [
        FleetRequest(number, arrival, numbers[first:stop], may_hit, prompt, max(output, 1), session, salt)
        for number, (arrival, (first, stop), may_hit, prompt, output, session, salt) in enumerate(rows)
    ]


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The plan of rows with a clock: the requests, one replica's engine, how long its steps take, and the objectives."""

    requests: list[FleetRequest]
    config: EngineConfig
    latency: LatencyModel
    slo: Slo | None = None
    tiers: TierPlan | None = None
    """What lies below each replica's GPU; None: nothing."""
    model_label: str | None = None
    """The model of the times, for notes; None: the name of its geometry."""

    @classmethod
    def of(cls, trace: BlockTrace, planned: PlannedRun, *, slo: Slo | None = None, speedup: float = 1.0) -> FleetPlan:
        """Read the options of a run. Raise KvtoolError for what cannot be told with a clock."""
        planned.check_known("a clock")
        config = planned.plan.engine
        if config.plan is not None:
            raise KvtoolError(
                "a clock follows one group of layers with full attention, and this model has others",
                hint="name a model whose layers all have full attention, or another axis: --sweep capacity",
            )
        if config.block_size != trace.block_size:
            raise KvtoolError(f"the trace has blocks of {trace.block_size} tokens, the engine {config.block_size}")
        plan = planned.plan
        return cls(fleet_requests(trace, speedup), config, plan.latency, slo, model_label=plan.model_label)

    @property
    def predicted_on(self) -> str:
        """Name the model and the accelerator of the times."""
        return f"{self.model_label or self.latency.geometry.name} on {self.latency.accelerator.name}"

    @property
    def gpus_each(self) -> int:
        """Count accelerators of a replica."""
        return self.latency.tensor_parallel

    def replica(self, number: int, ledger: FleetLedger) -> Replica:
        """Return an engine of the fleet."""
        tiers = self.tiers
        if tiers is not None and (tiers.host or tiers.disk):
            return TieredReplica(number, self.config, self.latency, ledger, tiers)
        return Replica(number, self.config, self.latency, ledger)

    def serve(
        self, router: FleetRouter, replicas: int, *, view: RouterView = "events", index_blocks: int | None = None
    ) -> FleetRun:
        """Return the requests through so many replicas. KvtoolError for a request that could never run."""
        try:
            return serve(self.requests, self.replica, replicas, router, view=view, index_blocks=index_blocks)
        except EngineError as error:
            raise KvtoolError(error.message, hint=error.hint) from error

    def serve_by(self, router: NamedRouter, replicas: int, seed: int) -> FleetRun:
        """Return the same after a router as it was asked for; KvtoolError for a bound, too."""
        kind = router.kind
        return self.serve(made_router(router, seed), replicas, view=kind.view, index_blocks=kind.index_blocks)

    def smallest(
        self,
        make_router: Callable[[], FleetRouter],
        *,
        view: RouterView = "events",
        index_blocks: int | None = None,
        most: int = MOST_REPLICAS,
    ) -> FleetSearch:
        """Return the smallest fleet that meets the objectives, which are asked for; each size gets a router of its own."""
        slo = self.slo
        assert slo is not None, "a search has an objective"
        config = self.config
        best = attainable(self.requests, self.latency, slo, config.block_size, config.max_num_batched_tokens)
        if best < slo.share:
            return FleetSearch(None, {}, 0, best)

        def share_of(replicas: int) -> float:
            misses = MissedSlo(slo, len(self.requests))
            give_up = None if replicas == most else misses
            run = serve(
                self.requests,
                self.replica,
                replicas,
                make_router(),
                view=view,
                index_blocks=index_blocks,
                give_up=give_up,
            )
            return misses.most if misses.too_many and give_up else fleet_figures(run, slo).within_slo or 0.0

        return smallest_fleet(share_of, slo.share, most=most, attainable=best)

    def smallest_by(self, router: NamedRouter, seed: int) -> FleetSearch:
        """Return the same after a router as it was asked for."""
        kind = router.kind
        return self.smallest(lambda: made_router(router, seed), view=kind.view, index_blocks=kind.index_blocks)

    def row(
        self, axis: Axis, run: FleetRun, *, routing: str | None = None, search: FleetSearch | None = None
    ) -> SweepRow:
        """Return a run's row; `search` says how many accelerators the objectives need."""
        figures = fleet_figures(run, self.slo, gpus_each=self.gpus_each)
        fields = {
            "axis": axis,
            "capacity": None if self.config.num_blocks is None else self.config.num_blocks - 1,
            "routing": routing,
            "hit_blocks": int(run.hit_blocks.sum()),
            "references": run.references,
            "hit_rate": figures.hit_rate,
            "sure": "predicted",
        }
        return SweepRow.model_validate({**fields, **clock_fields(run, figures, search, self.gpus_each)})


def clock_fields(run: FleetRun, figures: FleetFigures, search: FleetSearch | None, gpus_each: int) -> dict[str, object]:
    """Return what any row with a clock says of its run, beside what was hit."""
    return {
        "replicas": run.replicas,
        "imbalance": figures.imbalance,
        "request_imbalance": figures.request_imbalance,
        "ttft_p50": figures.ttft_p50,
        "ttft_p99": figures.ttft_p99,
        "tpot_p50": figures.tpot_p50,
        "tpot_p99": figures.tpot_p99,
        "goodput": figures.goodput,
        "within_slo": figures.within_slo,
        "gpus": None if search is None else search.gpus(gpus_each),
    }


def named_router(name: str, view: RouterView | None = None) -> NamedRouter:
    """Return the router of a name, with its settings; `view`: None is what its program knows. KvtoolError where there is none."""
    try:
        router = asked_router(name)
    except EngineError as error:
        raise KvtoolError(f"--routing: {error.message}", hint=error.hint) from error
    return router if view is None else replace(router, kind=replace(router.kind, view=view))


def made_router(router: NamedRouter, seed: int) -> FleetRouter:
    """Return one that routes; KvtoolError for a bound. `seed` is that of everything random in it."""
    if router.settings is None:
        raise KvtoolError(f"--routing: {router.name} is a bound, and no router", hint="--sweep routing shows it")
    return router.settings.router(seed)
