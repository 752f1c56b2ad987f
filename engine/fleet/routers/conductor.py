"""Choose by time to the first token: Mooncake's Conductor, which refuses requests that would be late, and the plain rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import REFUSED, FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, least_at


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastTtftSettings:
    """There is nothing to set."""

    def router(self, seed: int) -> FleetRouter:
        """Return the router; no choice is random."""
        return ConductorRouter(ConductorSettings())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorSettings:
    """Settings of the published algorithm."""

    slo: float = inf
    """Seconds to the first token beyond which a request is turned away."""

    def router(self, seed: int) -> FleetRouter:
        """Return the router; no choice is random."""
        return ConductorRouter(self)


class ConductorRouter(RuleRouter):
    """Choose the fewest seconds of queue and prefill, the first of equals; refuse a request later than the objective."""

    def __init__(self, settings: ConductorSettings) -> None:
        super().__init__()
        self._slo = settings.slo

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the number of the replica, or REFUSED."""
        seconds = [
            replica.queue_seconds()
            + replica.prefill_seconds(request.prompt_tokens, replica.matched(request) * replica.block_size)
            for replica in replicas
        ]
        at = least_at(seconds)
        return REFUSED if seconds[at] > self._slo else replicas[at].number


LEAST_TTFT = RouterKind(
    "least-ttft",
    "least queue + prefill of uncached tokens, by the latency model",
    "",
    (),
    "events",
    LeastTtftSettings(),
)
CONDUCTOR = RouterKind(
    "conductor",
    "least queue + prefill of uncached tokens, by the latency model; refused above slo",
    "Mooncake (arXiv:2407.00079v3, Algorithm 1)",
    ("arXiv:2407.00079v3, Algorithm 1",),
    "events",
    ConductorSettings(),
    usual=False,
    left_out="copies of a prefix from one replica to another",
)
