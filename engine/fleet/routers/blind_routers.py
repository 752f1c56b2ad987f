"""Routers that use one fact only, or none: in turn, at random, by load, by match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, least_at


@dataclass(frozen=True, slots=True)
class RoundRobinSettings:
    """There is nothing to set."""

    def router(self, seed: int) -> FleetRouter:
        """Return a router in turn; the seed is unused."""
        return RoundRobinRouter()


class RoundRobinRouter(RuleRouter):
    """Each replica in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the one after that of the request before."""
        at = self._next % len(replicas)
        self._next = at + 1
        return replicas[at].number


@dataclass(frozen=True, slots=True)
class RandomSettings:
    """There is nothing to set but the seed of a run."""

    def router(self, seed: int) -> FleetRouter:
        """Return the same choices for the same seed."""
        return RandomRouter(seed)


class RandomRouter(RuleRouter):
    """Any replica, each as likely."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(seed)  # noqa: S311 - reproducible routing, not a secret

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Drawn anew for each request."""
        return replicas[self._random.randrange(len(replicas))].number


@dataclass(frozen=True, slots=True)
class LeastLoadedSettings:
    """There is nothing to set."""

    def router(self, seed: int) -> FleetRouter:
        """Return a router by load; the seed is unused."""
        return LeastLoadedRouter()


def in_flight(replica: ReplicaView) -> int:
    """Return requests that a replica has and has not answered."""
    return replica.waiting + replica.running


class LeastLoadedRouter(RuleRouter):
    """The replica with the fewest requests in flight; the first of equals."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Choose by load; caches are ignored."""
        return replicas[least_at([in_flight(replica) for replica in replicas])].number


@dataclass(frozen=True, slots=True)
class LongestPrefixSettings:
    """There is nothing to set."""

    def router(self, seed: int) -> FleetRouter:
        """Return a router by match; the seed is unused."""
        return LongestPrefixRouter()


class LongestPrefixRouter(RuleRouter):
    """Choose the replica with the longest match, the first of equals; load is ignored."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Choose by match; a prefix that all prompts share draws all of them to one replica."""
        return replicas[least_at([-replica.matched(request) for replica in replicas])].number


ROUND_ROBIN = RouterKind(
    "round-robin",
    "each replica in turn",
    "",
    ("casys-kaist/LLMServingSim inference_serving/router.py (RR)",),
    "routed",
    RoundRobinSettings(),
)
RANDOM = RouterKind(
    "random",
    "a random replica, all equally likely",
    "",
    ("casys-kaist/LLMServingSim inference_serving/router.py (RAND)",),
    "routed",
    RandomSettings(),
)
LEAST_LOADED = RouterKind(
    "least-loaded",
    "fewest requests in flight; the first of equals",
    "",
    ("microsoft/vidur vidur/scheduler/global_scheduler/lor_global_scheduler.py",),
    "routed",
    LeastLoadedSettings(),
)
LONGEST_PREFIX = RouterKind(
    "longest-prefix",
    "most leading blocks of the prompt; the first of equals; ignores load",
    "",
    (),
    "events",
    LongestPrefixSettings(),
    usual=False,
)
