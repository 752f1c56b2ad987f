"""llm-d's scheduler: a weighted sum of scores, each from 0 to 1; the highest wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, Ties, least_at, prompt_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmdSettings:
    """Weights of scorers, 0 for one that is not in the profile, and the prefix scorer's view."""

    prefix: float = 3.0
    """`prefix-cache-scorer`: matched blocks over the prompt's."""
    queue: float = 2.0
    """`queue-scorer`: (max - waiting) / (max - min), 1 where all wait alike."""
    kv: float = 2.0
    """`kv-cache-utilization-scorer`: the part of the cache that running requests do not use."""
    load_aware: float = 0.0
    """`load-aware-scorer`: 0.5 x (1 - waiting / 128), not below 0."""
    no_hit_lru: float = 0.0
    """`no-hit-lru-scorer`: 0.5; for a request without any hit, a replica's rank by the time of its last such request."""
    most_waiting: int = 128
    """Limit of the load-aware scorer."""
    most_blocks: int = 256
    """Leading blocks that are hashed; the rest of a longer prompt is neither matched nor counted."""
    ties: Ties = "random"

    def router(self, seed: int) -> FleetRouter:
        """Return the seed is that of ties."""
        return LlmdRouter(self, seed)


class LlmdRouter(RuleRouter):
    """Add up scores."""

    def __init__(self, settings: LlmdSettings, seed: int) -> None:
        super().__init__()
        self._settings = settings
        self._draw = Random(seed) if settings.ties == "random" else None  # noqa: S311 - reproducible ties, not a secret
        self._cold: dict[int, None] = {}
        """Replicas that got a request without any hit; the one longest ago first."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the highest sum."""
        settings = self._settings
        most = settings.most_blocks
        matches = [min(replica.matched(request), most) for replica in replicas]
        blocks = min(prompt_blocks(request, replicas[0].block_size), most)
        waiting = [replica.waiting for replica in replicas]
        longest, shortest = max(waiting), min(waiting)
        cold = not any(matches)
        ranks = self._cold_ranks(replicas) if settings.no_hit_lru and cold else [0.5] * len(replicas)
        costs = []
        for replica, match, waits, rank in zip(replicas, matches, waiting, ranks, strict=True):
            score = settings.prefix * match / blocks
            score += settings.queue * (1.0 if longest == shortest else (longest - waits) / (longest - shortest))
            score += settings.kv * (1.0 - (replica.used_blocks / replica.num_blocks if replica.num_blocks else 0.0))
            score += settings.load_aware * 0.5 * (1.0 - min(waits / settings.most_waiting, 1.0))
            score += settings.no_hit_lru * rank
            costs.append(-score)
        chosen = replicas[least_at(costs, self._draw)].number
        if cold:
            self._cold.pop(chosen, None)
            self._cold[chosen] = None
        return chosen

    def _cold_ranks(self, replicas: Sequence[ReplicaView]) -> list[float]:
        """Return ranks from 1 for the first in line to 0 for the last: replicas without such a request, then the oldest one."""
        if len(replicas) == 1:
            return [1.0]
        never = [replica.number for replica in replicas if replica.number not in self._cold]
        place = {number: at for at, number in enumerate([*never, *self._cold])}
        return [1.0 - place[replica.number] / (len(replicas) - 1) for replica in replicas]


LLM_D = RouterKind(
    "llm-d",
    "highest sum: prefix x matched blocks / blocks + queue x (max - waiting) / (max - min) + kv x the free part of the cache",
    "llm-d-inference-scheduler 0.8.0, weights of its chart",
    (
        "llm-d/llm-d-inference-scheduler pkg/epp/framework/plugins/scheduling/scorer/{prefix,queuedepth,kvcacheutilization}",
        "llm-d/llm-d-inference-scheduler pkg/epp/framework/plugins/scheduling/scorer/{loadaware,nohitlru}",
        "llm-d/llm-d-inference-scheduler pkg/epp/framework/plugins/requestcontrol/dataproducer/approximateprefix",
        "llm-d/llm-d-inference-scheduler config/charts/epplib/templates/_config.yaml (weights)",
    ),
    "routed",
    LlmdSettings(),
    index_blocks=31_250,
    left_out="llm-d hashes characters, four per token",
)
