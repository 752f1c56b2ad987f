"""Routers that look at one thing only, or at nothing: in turn, at random, by load, by match."""

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
        """In turn, whatever the seed."""
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
        """By load, whatever the seed."""
        return LeastLoadedRouter()


def in_flight(replica: ReplicaView) -> int:
    """Requests that a replica has and has not answered."""
    return replica.waiting + replica.running


class LeastLoadedRouter(RuleRouter):
    """The replica with the fewest requests in flight, of equals the first."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Caches are not looked at."""
        return replicas[least_at([in_flight(replica) for replica in replicas])].number


@dataclass(frozen=True, slots=True)
class LongestPrefixSettings:
    """There is nothing to set."""

    def router(self, seed: int) -> FleetRouter:
        """By match, whatever the seed."""
        return LongestPrefixRouter()


class LongestPrefixRouter(RuleRouter):
    """The replica that holds most of the prompt, of equals the first: load is not looked at."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """A prefix that all prompts share draws all of them to one replica."""
        return replicas[least_at([-replica.matched(request) for replica in replicas])].number


ROUND_ROBIN = RouterKind(
    "round-robin",
    "each replica in its turn",
    "",
    ("casys-kaist/LLMServingSim inference_serving/router.py (RR)",),
    "routed",
    RoundRobinSettings(),
)
RANDOM = RouterKind(
    "random",
    "any replica, each as likely",
    "",
    ("casys-kaist/LLMServingSim inference_serving/router.py (RAND)",),
    "routed",
    RandomSettings(),
)
LEAST_LOADED = RouterKind(
    "least-loaded",
    "fewest requests in flight, of equals the first",
    "",
    ("microsoft/vidur vidur/scheduler/global_scheduler/lor_global_scheduler.py",),
    "routed",
    LeastLoadedSettings(),
)
LONGEST_PREFIX = RouterKind(
    "longest-prefix",
    "most leading blocks of the prompt, of equals the first; load is not looked at",
    "",
    (),
    "events",
    LongestPrefixSettings(),
    usual=False,
)
