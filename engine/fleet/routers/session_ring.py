"""A session stays with one replica: consistent hashing over a ring, as vLLM's production-stack routes sessions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import xxhash

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.request_rates import RequestRates
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter


def ring_key(request: FleetRequest) -> str | None:
    """Return the request's session, else its tenant; None if both are unknown."""
    if request.session >= 0:
        return f"session {request.session}"
    return f"tenant {request.salt}" if request.salt >= 0 else None


class HashRing:
    """Points of replicas on a ring: a key belongs to the first point at or after its own place.

    Where replicas come or go, only the keys of their points move.
    """

    def __init__(self, replicas: Sequence[int], points: int, seed: int) -> None:
        """Create the ring with so many `points` of each replica."""
        places = (
            (_place(f"replica {replica} point {point}", seed), replica)
            for replica in replicas
            for point in range(points)
        )
        self._ring = sorted(places)
        self._seed = seed

    def owner(self, key: str) -> int:
        """Return the replica of a key."""
        at = bisect_left(self._ring, (_place(key, self._seed), -1))
        return self._ring[at % len(self._ring)][1]


def _place(key: str, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(key.encode(), seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRingSettings:
    """Settings and defaults of production-stack; the points are those of its ring."""

    points: int = 160
    """Points of each replica on the ring."""
    window: float = 60.0
    """Seconds over which requests per second are counted, for requests of no session and no tenant."""

    def router(self, seed: int) -> FleetRouter:
        """Return the seed moves the points of the ring."""
        return SessionRingRouter(self, seed)


class SessionRingRouter(RuleRouter):
    """Choose by session, else by tenant; a request without either goes to the replica with the fewest recent requests."""

    def __init__(self, settings: SessionRingSettings, seed: int) -> None:
        super().__init__("session", "rate")
        self._settings = settings
        self._seed = seed
        self._rates = RequestRates(settings.window)
        self._ring: HashRing | None = None

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the owner of the session's place on the ring."""
        if self._ring is None:
            self._ring = HashRing([replica.number for replica in replicas], self._settings.points, self._seed)
        key = ring_key(request)
        self.ways["rate" if key is None else "session"] += 1
        chosen = self._rates.lowest(replicas, now) if key is None else self._ring.owner(key)
        self._rates.sent(chosen, now)
        return chosen


SESSION_RING = RouterKind(
    "session-ring",
    "consistent hash of the session, else of the tenant, else the replica with the fewest recent requests",
    "production-stack 0.1.12",
    ("vllm-project/production-stack src/vllm_router/routers/routing_logic.py (SessionRouter)",),
    "routed",
    SessionRingSettings(),
    needs_sessions=True,
)
