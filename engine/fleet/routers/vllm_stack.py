"""vLLM's production-stack: `kvaware`, which asks for the replica with a prompt, and `loadaware`, which weighs that against load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.blind_routers import in_flight
from kvtool.engine.fleet.routers.request_rates import RequestRates
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, least_at, prompt_blocks
from kvtool.engine.fleet.routers.session_ring import HashRing, ring_key


@dataclass(frozen=True, slots=True, kw_only=True)
class KvawareSettings:
    """Settings and defaults of its command line."""

    threshold: int = 2000
    """`kv_aware_threshold`: tokens of the prompt that the first holder may lack."""
    points: int = 160
    """Points of each replica on the ring of sessions."""
    window: float = 60.0
    """Seconds over which requests per second are counted."""

    def router(self, seed: int) -> FleetRouter:
        """Return the seed moves the points of the ring."""
        return KvawareRouter(self, seed)


class KvawareRouter(RuleRouter):
    """Choose the first replica that got the prompt's first block, if its match is enough; else by session, else by rate."""

    def __init__(self, settings: KvawareSettings, seed: int) -> None:
        super().__init__("holder", "session", "rate")
        self._settings = settings
        self._seed = seed
        self._rates = RequestRates(settings.window)
        self._ring: HashRing | None = None
        self._held_since: dict[int, list[int]] = {}
        """Replicas that were sent each first block, the earliest first."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Choose by the match of only one replica, even if others have a longer one."""
        holder = self._first_holder(request, replicas)
        enough = max(request.prompt_tokens - self._settings.threshold, 0)
        if holder is not None and holder[1] >= enough:
            way, chosen = "holder", holder[0]
        elif (key := ring_key(request)) is not None:
            if self._ring is None:
                self._ring = HashRing([replica.number for replica in replicas], self._settings.points, self._seed)
            way, chosen = "session", self._ring.owner(key)
        else:
            way, chosen = "rate", self._rates.lowest(replicas, now)
        self.ways[way] += 1
        self._rates.sent(chosen, now)
        if request.blocks:
            order = self._held_since.setdefault(request.blocks[0], [])
            if chosen not in order:
                order.append(chosen)
        return chosen

    def _first_holder(self, request: FleetRequest, replicas: Sequence[ReplicaView]) -> tuple[int, int] | None:
        """Return its number and its matched tokens."""
        held = {
            replica.number: match * replica.block_size for replica in replicas if (match := replica.matched(request))
        }
        if not held:
            return None
        order = self._held_since.setdefault(request.blocks[0], [])
        order[:] = [number for number in order if number in held]
        order.extend(number for number in held if number not in order)
        return order[0], held[order[0]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadawareSettings:
    """Settings and defaults of its command line."""

    beta: float = 1.0
    """Weight of twice the mean load, in whole cached prompts."""

    def router(self, seed: int) -> FleetRouter:
        """Return the router; no choice is random."""
        return LoadawareRouter(self)


class LoadawareRouter(RuleRouter):
    """Choose the highest matched share of the prompt, less the load above the mean; the first of equals."""

    def __init__(self, settings: LoadawareSettings) -> None:
        super().__init__()
        self._beta = settings.beta

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Load is requests in flight."""
        loads = [in_flight(replica) for replica in replicas]
        mean = sum(loads) / len(loads)
        costs = []
        for replica, load in zip(replicas, loads, strict=True):
            share = replica.matched(request) / prompt_blocks(request, replica.block_size)
            costs.append(self._beta * (load - mean) / max(1.0, mean) - share)
        return replicas[least_at(costs)].number


KVAWARE = RouterKind(
    "vllm-stack-kvaware",
    "the first holder if it lacks at most threshold tokens of the prompt; else the session's ring; else fewest recent requests",
    "production-stack 0.1.12",
    ("vllm-project/production-stack src/vllm_router/routers/routing_logic.py (KvawareRouter), parsers/parser.py",),
    "events",
    KvawareSettings(),
    own_way="holder",
    left_out="uses blocks, not LMCache's chunks of 256 tokens",
)
LOADAWARE = RouterKind(
    "vllm-stack-loadaware",
    "highest cached share of the prompt - beta x (load - mean) / max(1, mean)",
    "production-stack, after 0.1.12 (#1035)",
    ("vllm-project/production-stack#1035",),
    "events",
    LoadawareSettings(),
)
