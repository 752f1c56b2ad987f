"""The same requests after one router after another, and over more and fewer replicas, on the clock of the latency model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from kvtool.accounting.policies.optimum import optimal_hits
from kvtool.config.options.routing_options import Routed
from kvtool.engine.fleet.fleet_router import RouterView
from kvtool.engine.fleet.fleet_run import FleetRun
from kvtool.engine.fleet.gpu_search import FleetSearch
from kvtool.engine.fleet.routers.known_routers import ROUTERS
from kvtool.engine.fleet.routers.named_router import NamedRouter
from kvtool.engine.fleet.routers.router_kind import RuleRouter
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.fleet_rows import FleetPlan, made_router, named_router
from kvtool.profiler.what_if.planned_change import Flags
from kvtool.profiler.what_if.sweep_tasks import WORTH_IT, results
from kvtool.profiler.what_if.table_clock import ROUND_ROBIN
from kvtool.results.choices import Axis
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.tasks.task_options import TaskOptions

_REPLICAS = 4
_COUNTS = (1, 2, 4, 8)
_NEARLY_ALL = 0.9
_NO_SESSION = "session-ring needs sessions or tenants, and no request has one"


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Routers and counts of replicas to try; empty: those that suit. `view`: None is what each router's program knows."""

    axis: Axis
    routers: Sequence[NamedRouter] = ()
    replicas: Sequence[int] = ()
    view: RouterView | None = None

    @classmethod
    def of(cls, axis: Axis, routed: Routed) -> FleetOptions:
        """Read the options. Raise KvtoolError for routers that there are not."""
        routers = [named_router(name, routed.router_view) for name in routed.names()]
        replicas = routed.counts()
        if routed.routing is not None and not routers:
            raise KvtoolError("--routing names no router", hint=f"choose from {', '.join(ROUTERS)}")
        if axis == "routing" and len(replicas) > 1:
            raise KvtoolError(
                f"--sweep routing takes one number of replicas, not {len(replicas)}",
                hint="use --sweep replicas for several",
            )
        return cls(axis, routers, replicas, routed.router_view)


class RoutingSweep:
    """Rows with a clock, and what there is to say of them."""

    def __init__(self, plan: FleetPlan, asked: FleetOptions, *, seed: int) -> None:
        """`seed` is that of everything random in routers."""
        self.notes: list[str] = []
        self._seed = seed
        self._plan = plan
        self._asked = asked
        cache = "unlimited" if plan.config.num_blocks is None else f"{plan.config.num_blocks - 1:,} blocks"
        self.notes.append(f"times of {plan.predicted_on}, a roofline estimate; cache of each replica: {cache}")

    def rows(self, tasks: TaskOptions, progress: Progress, command: Callable[[Flags], str]) -> list[SweepRow]:
        """Return rows by number of replicas, and of one number those with the shortest TTFT p99 first; a bound is the last.

        `command` is what was given, with other flags: each row has the one that gives it again.
        """
        asked = self._asked
        routers = self._with_sessions(asked.routers or self._usual())
        counts = asked.replicas or ((_REPLICAS,) if asked.axis == "routing" else _COUNTS)
        todo = [(router, replicas) for replicas in counts for router in routers]
        blocks = len(todo) * sum(len(request.blocks) for request in self._plan.requests)
        serving = _Serving(self._plan, asked.axis, self._seed)
        progress.stage("serving", len(todo))
        rows: list[SweepRow] = []
        for _, (row, notes) in results(
            todo, serving, tasks.task_map(pays=blocks >= WORTH_IT), progress, _name, self.notes
        ):
            rows.append(row)
            self.notes += notes
        rows.sort(key=_order)
        return [row.model_copy(update={"command": command(_flags(row))}) for row in rows]

    def _usual(self) -> list[NamedRouter]:
        """Return every router of the registry that is another by default; over replicas that of today, and the one that looks at
        load.
        """
        if self._asked.axis == "replicas":
            return [named_router(name, self._asked.view) for name in (ROUND_ROBIN, "least-loaded")]
        usual = [named_router(name, self._asked.view) for name, kind in ROUTERS.items() if kind.usual]
        if self._keyless() < len(self._plan.requests):
            return usual
        self.notes.append(f"session-ring is left out: {_NO_SESSION}")
        return [router for router in usual if not router.kind.needs_sessions]

    def _keyless(self) -> int:
        """Count requests of no session and no tenant."""
        return sum(request.session < 0 and request.salt < 0 for request in self._plan.requests)

    def _with_sessions(self, routers: Sequence[NamedRouter]) -> Sequence[NamedRouter]:
        """Return the routers; KvtoolError where one needs what no request has."""
        needing = next((router for router in routers if router.kind.needs_sessions), None)
        if needing is None or not (keyless := self._keyless()):
            return routers
        requests = len(self._plan.requests)
        if keyless == requests:
            raise KvtoolError(
                f"{needing.name}: {_NO_SESSION}",
                hint="set them: --map session=FIELD of a log, `sessions` of a workload; or omit session-ring",
            )
        self.notes.append(
            f"{keyless:,} of {plural(requests, 'request')} have no session and no tenant: "
            f"{needing.name} sent them to the replica with the fewest recent requests"
        )
        return routers


@dataclass(frozen=True, slots=True)
class _Serving:
    """The work of each process on its routers."""

    plan: FleetPlan
    axis: Axis
    seed: int

    def __call__(self, part: tuple[NamedRouter, int]) -> tuple[SweepRow, list[str]]:
        """Return the row of a router and a number of replicas, and what there is to say of it."""
        router, replicas = part
        if router.settings is None:
            return self._bound(router.name, replicas), []
        plan, kind = self.plan, router.kind
        made = made_router(router, self.seed)
        run = plan.serve(made, replicas, view=kind.view, index_blocks=kind.index_blocks)
        notes = _notes_of(router, made, run)
        search = self._search(router, notes) if plan.slo is not None and self.axis == "routing" else None
        row = plan.row(self.axis, run, routing=router.name, search=search)
        return row.model_copy(update={"router_version": kind.version or None, "router_view": kind.view}), notes

    def _search(self, router: NamedRouter, notes: list[str]) -> FleetSearch:
        """Return the smallest fleet after a router that meets the objectives."""
        found = self.plan.smallest_by(router, self.seed)
        if found.replicas is None:
            notes.append(f"no tested fleet with {router.name} meets the objectives")
        return found

    def _bound(self, name: str, replicas: int) -> SweepRow:
        """Return what one cache hits that is as large as all and knows what comes."""
        plan = self.plan
        blocks = plan.config.num_blocks
        requests, looked_up = (
            [request.blocks for request in plan.requests],
            [request.asked for request in plan.requests],
        )
        caching = plan.config.enable_prefix_caching
        together = None if blocks is None else (blocks - 1) * replicas
        hits = optimal_hits(requests, together, looked_up) if caching else 0
        references = sum(looked_up)
        return SweepRow(
            axis=self.axis,
            capacity=None if blocks is None else blocks - 1,
            routing=name,
            replicas=replicas,
            hit_blocks=hits,
            references=references,
            hit_rate=hits / references if references else 0.0,
            sure="bound",
        )


def _name(part: tuple[NamedRouter, int]) -> str:
    router, replicas = part
    return f"{router.name} with {plural(replicas, 'replica')}"


def _notes_of(router: NamedRouter, made: object, run: FleetRun) -> list[str]:
    """Return what should be known of a run before its figures are believed."""
    with_replicas = _name((router, run.replicas))
    told: list[str] = []
    served = run.replica[run.served]
    if run.replicas == 1 or not len(served):
        return told
    own = router.kind.own_way
    if isinstance(made, RuleRouter) and own:
        used = made.ways[own]
        if not used:
            told.append(f"{with_replicas} never chose by {own}, so its rule had no effect")
        elif used == sum(made.ways.values()):
            told.append(f"{with_replicas} chose only by {own}, never by its second rule")
    most = int(np.bincount(served).max())
    if most > _NEARLY_ALL * len(served) and len(served) > run.replicas:
        told.append(f"{with_replicas} sent {percent(most / len(served))} of the requests to one replica")
    return told


def _flags(row: SweepRow) -> Flags:
    """Return what gives a row again."""
    return {"routing": row.routing, "replicas": row.replicas}


def _order(row: SweepRow) -> tuple[int, bool, float, float]:
    """Order rows: fewest GPUs for an objective first, then by waiting, never by hits alone."""
    waiting = inf if row.ttft_p99 is None else row.ttft_p99
    return row.replicas or 0, row.sure == "bound", inf if row.gpus is None else row.gpus, waiting
