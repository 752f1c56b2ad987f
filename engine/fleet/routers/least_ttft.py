"""Choose the replica that would send the first token soonest, by the latency model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, least_at


@dataclass(frozen=True, slots=True)
class LeastTtftSettings:
    """There is nothing to set."""

    def router(self, seed: int) -> FleetRouter:
        """Return the router; no choice is random."""
        return LeastTtftRouter()


class LeastTtftRouter(RuleRouter):
    """Choose the fewest seconds of queue and prefill, the first of equals."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the number of the replica."""
        seconds = [
            replica.queue_seconds()
            + replica.prefill_seconds(request.prompt_tokens, replica.matched(request) * replica.block_size)
            for replica in replicas
        ]
        return replicas[least_at(seconds)].number


LEAST_TTFT = RouterKind(
    "least-ttft",
    "least queue + prefill of uncached tokens, by the latency model",
    "",
    (),
    "events",
    LeastTtftSettings(),
)
