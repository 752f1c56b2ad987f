"""Preble: mostly cached prompts go to a replica with them, others to the least cost in the last three minutes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, least_at

_TPOTS = 200
"""Times per output token that are kept of each replica, for their median."""
_FIRST_TPOT = 0.15
"""Seconds, before a request has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrebleSettings:
    """Settings and defaults of its scheduler."""

    window: float = 180.0
    """Seconds that costs and times to the first token are kept for."""
    slower: float = 2.0
    """A prefix is overloaded on a replica where its TTFT of the window's second half is so many times that of the first."""

    def router(self, seed: int) -> FleetRouter:
        """Return the router; no choice is random."""
        return PrebleRouter(self)


class PrebleRouter(RuleRouter):
    """Receive first tokens and ends of requests."""

    def __init__(self, settings: PrebleSettings) -> None:
        super().__init__("holders", "least cost", "overloaded prefix")
        self._settings = settings
        self._prefill: dict[int, deque[tuple[float, float]]] = defaultdict(deque)
        """Moments of requests and their seconds of missed prefill, by replica."""
        self._decoding: dict[int, int] = defaultdict(int)
        """Output tokens of each replica's requests."""
        self._tpots: dict[int, deque[float]] = defaultdict(lambda: deque([_FIRST_TPOT], maxlen=_TPOTS))
        self._ttfts: dict[tuple[int, int], deque[tuple[float, float]]] = defaultdict(deque)
        """Moment and seconds, by first block and replica."""
        self._began: dict[int, float] = {}
        """Moment of the first token of each request in flight."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Choose the cheapest replica that caches more than half the prompt; without one, the cheapest of all."""
        matches = [replica.matched(request) for replica in replicas]
        best = max(matches)
        costs = [self.cost(replica.number, now) for replica in replicas]
        if 2 * best * replicas[0].block_size > request.prompt_tokens:
            holders = [at for at, match in enumerate(matches) if match == best]
            at = min(holders, key=costs.__getitem__)
            way = "holders"
            if all(self._overloaded(request, replicas[holder].number, now) for holder in holders):
                at, way = least_at(costs), "overloaded prefix"
                for holder in holders:
                    self._ttfts.pop((request.blocks[0], replicas[holder].number), None)
        else:
            at, way = least_at(costs), "least cost"
        self.ways[way] += 1
        chosen = replicas[at]
        missed = chosen.prefill_seconds(request.prompt_tokens, matches[at] * chosen.block_size)
        self._prefill[chosen.number].append((now, missed))
        self._decoding[chosen.number] += request.output_tokens
        return chosen.number

    def cost(self, replica: int, now: float) -> float:
        """Return seconds: missed prefill of the window's requests, plus decode of those in flight."""
        sent = self._prefill[replica]
        while sent and sent[0][0] < now - self._settings.window:
            sent.popleft()
        return sum(seconds for _, seconds in sent) + self._decoding[replica] * median(self._tpots[replica])

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None:
        """Record the load of a prefix there."""
        self._began[request.number] = now
        if request.blocks:
            self._ttfts[request.blocks[0], replica].append((now, ttft))

    def finished(self, request: FleetRequest, replica: int, now: float) -> None:
        """Record the time per output token."""
        self._decoding[replica] -= request.output_tokens
        began = self._began.pop(request.number, None)
        if began is not None and request.output_tokens > 1:
            self._tpots[replica].append((now - began) / (request.output_tokens - 1))

    def _overloaded(self, request: FleetRequest, replica: int, now: float) -> bool:
        seen = self._ttfts.get((request.blocks[0], replica))
        if seen is None:
            return False
        window = self._settings.window
        while seen and seen[0][0] < now - window:
            seen.popleft()
        middle = now - window / 2
        first = [ttft for moment, ttft in seen if moment < middle]
        second = [ttft for moment, ttft in seen if moment >= middle]
        if not first or not second:
            return False
        return sum(second) / len(second) >= self._settings.slower * sum(first) / len(first)


PREBLE = RouterKind(
    "preble",
    "if more than half is cached: the cheapest holder, unless its TTFT grew by the factor slower; else the cheapest replica. "
    "Cost: missed prefill in the window, and decode in flight",
    "Preble, commit 8e7906a3",
    ("WukLab/preble preble/global_scheduler_with_time.py, ttft_overload_detector.py",),
    "routed",
    PrebleSettings(),
    own_way="holders",
    left_out="moves of prefixes away from a busy replica; a prefix is its first block",
)
