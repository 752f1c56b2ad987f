"""A replica that only decodes: prompts come to it computed, with their first token."""

from __future__ import annotations

from collections import deque

from kvtool.engine.config import EngineConfig
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.live_request import LiveRequest
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.prediction.latency import LatencyModel


class DecodeReplica(Replica):
    """Admit requests, first come first served, once blocks for the whole prompt are free, and keep the prompts as a prefix cache.

    The replica computes preempted requests again itself, before it admits others.
    """

    def __init__(self, number: int, config: EngineConfig, latency: LatencyModel, ledger: FleetLedger) -> None:
        super().__init__(number, config, latency, ledger)
        self._got: deque[LiveRequest] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._got)

    @property
    def awaited_blocks(self) -> int:
        """Blocks of the prompts that wait."""
        return sum(self.prompt_blocks(live.request) for live in self._got)

    def prompt_blocks(self, request: FleetRequest) -> int:
        return -(-request.prompt_tokens // self.block_size)

    def held(self, request: FleetRequest) -> int:
        """Return the leading tokens of a prompt that need not be sent, because this replica has them."""
        self._settle()
        return len(self.pool.find(request.blocks, self._full(request))) * self.block_size

    def _full(self, request: FleetRequest) -> int:
        """Return blocks of a prompt that may be hit; none is computed here, so the one with its last token, too."""
        full = min(request.prompt_tokens // self.block_size, len(request.blocks))
        return full if self.config.enable_prefix_caching else 0

    def receive(self, request: FleetRequest, now: float) -> None:
        """Receive a prompt with its first token; more are to come. `advance` was called with `now`."""
        target = min(request.output_tokens, self.config.max_model_len - request.prompt_tokens)
        assert target > 1
        live = LiveRequest(request, target, request.asked, request.blocks, 0, outputs=1)
        self._got.append(live)
        self.last_arrival = now
        if self._ends is None:
            self._step_start = max(self._step_start, now)
            self._admit_got()
        elif self._run is not None and len(self._got) == 1 and self._may_admit():
            self._cut(now)

    def _may_admit(self) -> bool:
        return not self._waiting and not self._partial and len(self._decoders) < self._most_running

    def _admit_got(self) -> None:
        pool, size = self.pool, self.block_size
        while self._got and self._may_admit():
            live = self._got[0]
            full = self._full(live.request)
            hits = pool.find(live.names, full)
            idle = pool.idle(hits)
            own = self.prompt_blocks(live.request) - len(hits)
            if pool.limited and own > pool.free - len(idle) - (self._reserve if len(self._decoders) else 0):
                return
            self._got.popleft()
            pool.hold(hits, idle)
            live.blocks = hits + pool.take(own)
            pool.enter(live.blocks[len(hits) : full], live.names[len(hits) : full])
            live.computed = live.request.prompt_tokens
            live.registered = live.computed // size
            live.order = self._admissions
            self._admissions += 1
            self._decoders.add(live, self._step)

    def _complete(self) -> None:
        super()._complete()
        self._admit_got()
