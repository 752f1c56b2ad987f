"""The clock of a fleet: requests arrive, a router gives each to a replica, and all replicas go on until the next one comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView, RouterView
from kvtool.engine.fleet.fleet_run import FleetRun
from kvtool.engine.fleet.request_event import Happening
from kvtool.engine.fleet.routed_view import RoutedView


class FleetReplica(ReplicaView, Protocol):
    """A replica that the clock can drive."""

    happened: list[Happening]

    def add(self, request: FleetRequest, now: float) -> None: ...

    def advance(self, moment: float) -> None:
        """Do all work that begins before `moment`, and end all work that ends by then."""
        ...

    def finish(self) -> None:
        """Do all that is left."""
        ...


MakeReplica = Callable[[int, FleetLedger], FleetReplica]
"""Maker of a numbered replica, which writes into the ledger."""


def serve(
    requests: Sequence[FleetRequest],
    make: MakeReplica,
    replicas: int,
    router: FleetRouter,
    *,
    view: RouterView = "events",
    index_blocks: int | None = None,
    give_up: Callable[[Happening], bool] | None = None,
) -> FleetRun:
    """Serve requests, which are in order of arrival and numbered so.

    Before each choice, the router receives the first tokens and ends up to that arrival. With the view `routed` it knows only the
    blocks that it sent to a replica, the latest `index_blocks` of them. `give_up` receives all events in order and may end the
    run; requests that are not served then have no moments.
    """
    if replicas < 1:
        raise EngineError(f"a fleet needs at least one replica, not {replicas}")
    ledger = FleetLedger(len(requests))
    fleet = [make(number, ledger) for number in range(replicas)]
    routed = [RoutedView(replica, index_blocks) for replica in fleet] if view == "routed" else []
    views: Sequence[ReplicaView] = routed or fleet
    for request in requests:
        now = request.arrival
        for replica in fleet:
            replica.advance(now)
        if _report_events(router, fleet, give_up):
            return ledger.run(requests, replicas)
        chosen = router.choose(request, views, now)
        fleet[chosen].add(request, now)
        if routed:
            routed[chosen].sent(request)
    for replica in fleet:
        replica.finish()
    _report_events(router, fleet, give_up)
    return ledger.run(requests, replicas)


def _report_events(router: FleetRouter, fleet: list[FleetReplica], give_up: Callable[[Happening], bool] | None) -> bool:
    """Report events to the router, in order of time; return whether the run is given up."""
    news: list[Happening] = []
    for replica in fleet:
        if replica.happened:
            news += replica.happened
            replica.happened.clear()
    if len(news) > 1:
        news.sort(key=lambda happening: happening.moment)
    for happening in news:
        moment, what, request, number = happening
        if what == "finished":
            router.finished(request, number, moment)
        else:
            router.first_token(request, number, moment - request.arrival, moment)
        if give_up is not None and give_up(happening):
            return True
    return False
