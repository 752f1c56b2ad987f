"""The clock of a fleet: who hears what when, and what a fleet gives whatever the router."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.fleet import serve
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import ReplicaView
from kvtool.engine.fleet.fleet_run import FleetRun
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.fleet.routers.known_routers import ROUTERS
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator

MODEL = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
CONFIG = EngineConfig(num_blocks=400)


def request(
    number: int, arrival: float, blocks: Sequence[int] = (), tokens: int = 100, answer: int = 5
) -> FleetRequest:
    return FleetRequest(number, arrival, list(blocks), min(len(blocks), (tokens - 1) // 16), tokens, answer)


class Listed:
    """Gives requests to the replicas of a list, and notes what it hears and sees."""

    def __init__(self, chosen: Sequence[int]) -> None:
        self.chosen = list(chosen)
        self.heard: list[tuple[str, int, int, float]] = []
        self.seen: list[tuple[tuple[int, int, int], ...]] = []
        self.matched: list[tuple[int, ...]] = []

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        assert all(moment <= now for *_, moment in self.heard)
        self.seen.append(tuple((each.waiting, each.running, each.pending_tokens) for each in replicas))
        self.matched.append(tuple(each.matched(request) for each in replicas))
        return self.chosen[request.number]

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None:
        assert ttft == pytest.approx(now - request.arrival)
        self.heard.append(("first", request.number, replica, now))

    def finished(self, request: FleetRequest, replica: int, now: float) -> None:
        self.heard.append(("last", request.number, replica, now))


def make(number: int, ledger: FleetLedger) -> Replica:
    return Replica(number, CONFIG, MODEL, ledger)


def equal(one: FleetRun, other: FleetRun) -> bool:
    columns = ("first_token", "finished", "hit_blocks", "computed_tokens")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)


def test_router_hears_in_order_of_time_and_sees_what_is_there() -> None:
    requests = [request(0, 0.0), request(1, 0.0), request(2, 0.001, answer=1), request(3, 5.0)]
    router = Listed([0, 1, 0, 1])
    run = serve(requests, make, 2, router)
    assert [(what, number) for what, number, *_ in router.heard[:3]] == [("first", 0), ("first", 1), ("first", 2)]
    moments = [moment for *_, moment in router.heard]
    assert moments == sorted(moments)
    # The first two come at once, so nothing has begun; then both are in their first step.
    assert router.seen[0] == ((0, 0, 0), (0, 0, 0))
    assert router.seen[1] == ((1, 0, 100), (0, 0, 0))
    assert [each[:2] for each in router.seen[2]] == [(0, 1), (0, 1)]
    assert router.seen[3] == ((0, 0, 0), (0, 0, 0))
    assert list(run.replica) == [0, 1, 0, 1]


def test_blocks_that_are_matched() -> None:
    """The exact view hears what a replica stores, the routed one remembers what it was sent, up to a bound."""
    requests = [
        request(0, 0.0, range(5)),
        request(1, 1.0, range(5)),
        request(2, 2.0, [0, 1, 7]),
        request(3, 3.0, range(5)),
    ]
    events = Listed([1, 1, 0, 0])
    serve(requests, make, 2, events)
    assert events.matched == [(0, 0), (0, 5), (0, 2), (2, 5)]
    routed = Listed([1, 1, 0, 0])
    serve(requests, make, 2, routed, view="routed", index_blocks=3)
    assert routed.matched == [(0, 0), (0, 3), (0, 2), (2, 3)]


def test_each_replica_does_what_it_does_alone() -> None:
    """Two replicas do what two fleets of one do with the same requests."""
    requests = [request(number, 0.002 * number, range(number % 5, number % 5 + 4), answer=9) for number in range(40)]
    chosen = [number * number % 3 % 2 for number in range(40)]
    both = serve(requests, make, 2, Listed(chosen))
    for replica in (0, 1):
        own = both.replica == replica
        sent = [replace(requests[at], number=number) for number, at in enumerate(np.flatnonzero(own))]
        alone = serve(sent, make, 1, Listed([0] * len(sent)))
        for name in ("first_token", "finished", "hit_blocks"):
            assert np.array_equal(getattr(both, name)[own], getattr(alone, name))


def test_no_replica() -> None:
    with pytest.raises(EngineError, match="at least one replica"):
        serve([], make, 0, Listed([]))


@pytest.mark.parametrize(
    ("tokens", "answer", "message"),
    [(0, 1, "request 1 has an empty prompt"), (6390, 12, "request 1 needs 401 blocks for 6401 tokens; .* has 399")],
)
def test_requests_that_can_never_run(tokens: int, answer: int, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        serve([request(0, 0.0, tokens=tokens, answer=answer)], make, 1, Listed([0]))


def test_no_other_scheduler() -> None:
    with pytest.raises(EngineError, match="synchronous"):
        Replica(0, EngineConfig(policy="priority"), MODEL, FleetLedger(0))


def test_queue_seconds() -> None:
    """The rest of the step in flight, and each prompt that waits as if it ran alone; the same whenever one begins to ask."""
    ledger = FleetLedger(5)
    config = EngineConfig(max_num_batched_tokens=512)
    asked, late = Replica(0, config, MODEL, ledger), Replica(1, config, MODEL, ledger)
    for number in range(4):
        moment = 0.001 * number
        for replica in (asked, late):
            replica.advance(moment)
            replica.add(request(number, moment, tokens=2000), moment)
        asked.queue_seconds()
    assert asked.queue_seconds() == pytest.approx(late.queue_seconds())
    prompts = MODEL.prefill_seconds(2000, 0, 512)
    assert 3 * prompts < asked.queue_seconds() < 4 * prompts
    for replica in (asked, late):
        replica.advance(0.02)
    assert asked.queue_seconds() == pytest.approx(late.queue_seconds())
    asked.finish()
    assert asked.queue_seconds() == 0.0


def test_one_replica_is_the_same_whatever_the_router() -> None:
    for kind in [kind for kind in ROUTERS.values() if kind.settings is not None]:
        requests = [
            request(number, 0.003 * number, range(number % 7, number % 7 + 6), answer=20) for number in range(60)
        ]
        assert kind.settings is not None
        run = serve(requests, make, 1, kind.settings.router(0), view=kind.view, index_blocks=kind.index_blocks)
        assert equal(run, serve(requests, make, 1, Listed([0] * 60)))
