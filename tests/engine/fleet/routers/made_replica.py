"""Replicas whose state a test writes down, requests for them, and a fleet that computes prompts one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter


@dataclass
class MadeReplica:
    """What a test says of a replica."""

    number: int
    match: int = 0
    waiting: int = 0
    running: int = 0
    pending_tokens: int = 0
    used_blocks: int = 0
    num_blocks: int | None = 100
    block_size: int = 10
    below: tuple[int, int] = (0, 0)
    queue: float = 0.0
    tokens_per_second: float = 100.0
    computed_tokens: int = 0
    last_arrival: float | None = None

    def matched(self, request: FleetRequest) -> int:
        return min(self.match, request.asked)

    def matched_below(self, request: FleetRequest) -> tuple[int, int]:
        del request
        return self.below

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int) -> float:
        return (prompt_tokens - cached_tokens) / self.tokens_per_second

    def queue_seconds(self) -> float:
        return self.queue


def made_request(
    number: int = 0, blocks: int = 10, *, session: int = -1, first: int = 0, output: int = 1
) -> FleetRequest:
    """Of so many full blocks of 10 tokens, numbered from `first`; all may hit."""
    return FleetRequest(number, float(number), list(range(first, first + blocks)), blocks, blocks * 10, output, session)


def chosen(
    router: FleetRouter, replicas: Sequence[MadeReplica], request: FleetRequest | None = None, now: float = 0.0
) -> int:
    return router.choose(request or made_request(), replicas, now)


@dataclass
class ToyReplica:
    """One prefill after the other at a fixed rate, no decode; a list of blocks of which the longest unused goes first."""

    number: int
    num_blocks: int
    block_size: int
    tokens_per_second: float
    now: float = 0.0
    free: float = 0.0
    computed_tokens: int = 0
    last_arrival: float | None = None
    running: int = 0
    used_blocks: int = 0
    resident: dict[int, None] = field(default_factory=dict)
    ends: deque[tuple[float, FleetRequest]] = field(default_factory=deque)

    @property
    def waiting(self) -> int:
        return len(self.ends)

    @property
    def pending_tokens(self) -> int:
        return round(max(self.free - self.now, 0.0) * self.tokens_per_second)

    def matched(self, request: FleetRequest) -> int:
        resident = self.resident
        for place, block in enumerate(request.blocks):
            if block not in resident:
                return place
        return len(request.blocks)

    def matched_below(self, request: FleetRequest) -> tuple[int, int]:
        del request
        return 0, 0

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int) -> float:
        return max(prompt_tokens - cached_tokens, 0) / self.tokens_per_second

    def queue_seconds(self) -> float:
        return max(self.free - self.now, 0.0)

    def advance(self, router: FleetRouter, now: float) -> None:
        self.now = now
        while self.ends and self.ends[0][0] <= now:
            moment, request = self.ends.popleft()
            router.first_token(request, self.number, moment - request.arrival, moment)
            router.finished(request, self.number, moment)

    def serve(self, request: FleetRequest) -> tuple[int, float]:
        """New tokens, and seconds to the first token."""
        new = max(request.prompt_tokens - self.matched(request) * self.block_size, 0)
        resident = self.resident
        for block in reversed(request.blocks):
            resident.pop(block, None)
            resident[block] = None
        while len(resident) > self.num_blocks:
            del resident[next(iter(resident))]
        self.free = max(self.now, self.free) + new / self.tokens_per_second
        self.ends.append((self.free, request))
        self.computed_tokens += new
        return new, self.free - self.now


@dataclass(frozen=True)
class ToyRun:
    """What a toy fleet did."""

    hit_rate: float
    imbalance: float
    ttft_p50: float
    ttft_p99: float
    chosen: list[int]


def toy_run(
    router: FleetRouter, requests: Sequence[FleetRequest], *, replicas: int = 4, num_blocks: int, block_size: int
) -> ToyRun:
    """Serve requests at 10,000 new tokens per second and replica; the router sees caches exactly."""
    fleet = [ToyReplica(number, num_blocks, block_size, 10_000.0) for number in range(replicas)]
    seconds, where = [], []
    for request in requests:
        for replica in fleet:
            replica.advance(router, request.arrival)
        at = router.choose(request, fleet, request.arrival)
        where.append(at)
        seconds.append(fleet[at].serve(request)[1])
    computed = np.array([replica.computed_tokens for replica in fleet])
    total = sum(request.prompt_tokens for request in requests)
    return ToyRun(
        1 - computed.sum() / total,
        computed.max() / computed.mean(),
        float(np.quantile(seconds, 0.5)),
        float(np.quantile(seconds, 0.99)),
        where,
    )
