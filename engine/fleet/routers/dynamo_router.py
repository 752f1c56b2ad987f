"""Dynamo's KV router: the cheapest replica by blocks to prefill, less cached blocks, plus blocks that decode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from random import Random

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.blind_routers import in_flight
from kvtool.engine.fleet.routers.load_book import LoadBook
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, Ties, least_at, prompt_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoSettings:
    """Settings and defaults of `KvRouterConfig`."""

    scale: float = 1.0
    """`prefill_load_scale`, of blocks to prefill."""
    credit: float = 1.0
    """`overlap_score_credit`: the credit of a block on the GPU."""
    decay: float = 0.0
    """`overlap_score_credit_decay`: the credit is divided by 1 + decay x (prefill beyond the least, in prompts of this length)."""
    host: float = 0.75
    """`host_cache_hit_weight`."""
    disk: float = 0.25
    """`disk_cache_hit_weight`."""
    active: float = 0.0
    """`decode_active_request_weight`: blocks that each request in flight counts as."""
    blocks: bool = True
    """`router_track_active_blocks`: whether blocks of prompts in flight count; without, only the prefill terms do."""
    temperature: float = 0.0
    """`router_temperature`: 0 takes the cheapest, more draws by the softmax of -cost / ((max - min) x temperature)."""
    ties: Ties = "random"

    def router(self, seed: int) -> FleetRouter:
        """Return the seed is that of ties and of the softmax."""
        return DynamoRouter(self, seed)


class DynamoRouter(RuleRouter):
    """Costs in blocks; load is the requests that it sent and that have not ended."""

    def __init__(self, settings: DynamoSettings, seed: int) -> None:
        super().__init__()
        self._settings = settings
        self._random = Random(seed)  # noqa: S311 - reproducible routing, not a secret
        self._book = LoadBook()

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the cheapest, or one drawn by cost."""
        costs = self.costs(request, replicas)
        if self._settings.temperature > 0:
            at = self._drawn(costs)
        else:
            at = least_at(costs, self._random if self._settings.ties == "random" else None)
        chosen = replicas[at]
        new = max(request.prompt_tokens - chosen.matched(request) * chosen.block_size, 0)
        self._book.sent(request.number, chosen.number, new, self._blocks(request, chosen.block_size))
        return chosen.number

    def costs(self, request: FleetRequest, replicas: Sequence[ReplicaView]) -> list[float]:
        """Return the costs of each replica."""
        settings, book = self._settings, self._book
        pending = [book.prefill_tokens(replica.number) for replica in replicas]
        least = min(pending)
        costs = []
        for replica, tokens in zip(replicas, pending, strict=True):
            size = replica.block_size
            excess = (tokens - least) / size / prompt_blocks(request, size)
            credit = settings.credit * replica.matched(request) / (1.0 + settings.decay * excess)
            host, disk = replica.matched_below(request)
            credit += settings.host * host + settings.disk * disk
            cost = settings.scale * max((tokens + request.prompt_tokens) / size - credit, 0.0)
            if settings.blocks:
                cost += book.blocks_with(replica.number, self._blocks(request, size))
            costs.append(cost + settings.active * in_flight(replica))
        return costs

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None:
        """Remove the request's prompt from its load."""
        self._book.first_token(request.number, replica)

    def finished(self, request: FleetRequest, replica: int, now: float) -> None:
        """Remove the request's blocks from its load."""
        self._book.finished(request.number, replica)

    def _blocks(self, request: FleetRequest, size: int) -> list[int]:
        """Return the request's blocks as load counts them."""
        return request.blocks[: prompt_blocks(request, size)] if self._settings.blocks else []

    def _drawn(self, costs: list[float]) -> int:
        least, most = min(costs), max(costs)
        if least == most:
            return self._random.randrange(len(costs))
        spread = (most - least) * self._settings.temperature
        return self._random.choices(range(len(costs)), [exp((least - cost) / spread) for cost in costs])[0]


DYNAMO = RouterKind(
    "dynamo",
    "least cost in blocks: scale x (prompts to prefill, this one included, - credit x its cached blocks); plus the blocks of "
    "all prompts in flight",
    "Dynamo 1.x, commit 07a6c9ce",
    (
        "ai-dynamo/dynamo lib/kv-router/src/scheduling/selector/default.rs, mod.rs",
        "ai-dynamo/dynamo lib/kv-router/src/scheduling/config.rs (defaults)",
    ),
    "events",
    DynamoSettings(),
    left_out="its queue before the choice, and a cache that workers share",
)
