"""A replica that looks up blocks in host memory and on disk before it computes them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from kvtool.engine.config import EngineConfig
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.live_request import LiveRequest
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.fleet.replica_blocks import Name
from kvtool.engine.fleet.shared_link import SharedLink
from kvtool.engine.fleet.tier import TierLevel, TierRun
from kvtool.engine.fleet.tier_plan import TierPlan
from kvtool.engine.fleet.tiered_pool import TieredPool
from kvtool.engine.prediction.latency import LatencyModel


@dataclass(slots=True, eq=False)
class TierLoad:
    """Blocks on their way up for a request. `hits`: the GPU's blocks before them."""

    live: LiveRequest
    hits: int
    names: list[Name]
    parts: int
    """Transfers that are still in flight."""


class TieredReplica(Replica):
    """Load blocks as vLLM's offloading connector does.

    For the head of the queue, blocks below are looked up after the GPU's hits. The request takes its blocks and leaves the queue
    until they are loaded, while others are admitted. A request that needs blocks on their way waits for them. Loads of a level
    share its link. A loaded request is the first of the queue. Until its admission its blocks are the latest used of the free
    ones; vLLM keeps them in use.
    """

    def __init__(
        self, number: int, config: EngineConfig, latency: LatencyModel, ledger: FleetLedger, plan: TierPlan
    ) -> None:
        super().__init__(number, config, latency, ledger)
        self._plan = plan
        self._stack = plan.stack()
        self.pool = TieredPool(config.num_blocks, self._stack)
        self.links: dict[TierLevel, SharedLink] = {}
        if plan.host:
            self.links["host"] = SharedLink(plan.host_bandwidth, plan.host_latency)
        if plan.disk:
            self.links["disk"] = SharedLink(plan.disk_bandwidth, plan.disk_latency)
        self._loads: dict[int, TierLoad] = {}
        """Loads by a number that their transfers share."""
        self._num_loads = 0
        self._loading: set[Name] = set()
        self._delayed: list[LiveRequest] = []
        """Requests that need blocks which are on their way for others."""
        self._loaded: dict[LiveRequest, TierLoad] = {}
        """Loaded blocks of requests that wait for their admission."""

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._loads) + len(self._delayed)

    @property
    def pending_tokens(self) -> int:
        return super().pending_tokens + sum(live.expected for live in self._out_of_queue())

    def _out_of_queue(self) -> list[LiveRequest]:
        """Return requests that left the queue for a while."""
        return [*(load.live for load in self._loads.values()), *self._delayed]

    def matched_below(self, request: FleetRequest) -> tuple[int, int]:
        """Return the blocks after the GPU's hits, in host memory and on disk."""
        if not self.config.enable_prefix_caching:
            return 0, 0
        runs = self._stack.runs(request.blocks, self.matched(request), min(request.asked, len(request.blocks)))
        host = sum(run.blocks for run in runs if run.level == "host")
        return host, sum(run.blocks for run in runs) - host

    def advance(self, moment: float) -> None:
        """Advance as a replica does; end the loads that end by then."""
        while True:
            wake = self._next_wake()
            stop = min(moment, wake)
            self._now = stop
            if self._go_on(stop):
                continue
            if wake > moment or wake == inf:
                return
            self._wake(wake)

    def _next_wake(self) -> float:
        """Return the moment of the link's next event."""
        return min((link.next_event() for link in self.links.values()), default=inf)

    def _wake(self, now: float) -> None:
        """Move requests with all blocks loaded to the head of the queue, in order of arrival, with those that wait for the same
        blocks."""
        ready: list[LiveRequest] = []
        for link in self.links.values():
            for _, number in link.advance(now):
                load = self._loads[number]
                load.parts -= 1
                if not load.parts:
                    del self._loads[number]
                    self._end(load)
                    ready.append(load.live)
        if not ready:
            return
        ready += self._delayed
        self._delayed = []
        ready.sort(key=lambda live: live.request.number, reverse=True)
        for live in ready:
            self._waiting.add(live, front=True)
        if self._run is not None:
            if len(self._decoders) < self._most_running:
                self._cut(now)
        elif self._ends is None:
            self._step_start = max(self._step_start, now)

    def _end(self, load: TierLoad) -> None:
        """Set the contents of a load's blocks."""
        live = load.live
        self._loading.difference_update(load.names)
        self.pool.enter(live.blocks[load.hits :], load.names)
        self.pool.release(live.blocks, len(live.blocks))
        live.blocks = []
        self._loaded[live] = load

    def _schedule(self) -> None:
        super()._schedule()
        if self._ends == self._step_start and self._waiting and not self._decoders and not self._chunked:
            # The room that the first of the queue needs is taken by blocks on their way.
            assert self._loads
            self._ends, self._step_start = None, self._next_wake()

    def _set_aside(self, live: LiveRequest, hits: list[int]) -> bool:
        if live in self._loaded:
            return False
        names, first = live.names, len(hits)
        most = min(self._may_hit(live), len(names))
        runs = self._stack.runs(names, first, most)
        stop = runs[-1].stop if runs else first
        if self._loading and not self._loading.isdisjoint(names[first : min(stop + 1, most)]):
            self._delayed.append(self._waiting.pop())
            return True
        runs = self._runs_to_load(live, runs)
        if not runs or not self._has_room(live, hits, runs[-1].stop):
            return False
        stop = runs[-1].stop
        self._waiting.pop()
        pool, wanted = self.pool, names[first:stop]
        self._stack.loaded(wanted)
        pool.hold(hits, pool.idle(hits))
        live.blocks = hits + pool.take(stop - first)
        self._loading.update(wanted)
        by_level: dict[TierLevel, int] = {}
        for run in runs:
            by_level[run.level] = by_level.get(run.level, 0) + run.blocks
        for level, blocks in by_level.items():
            self.links[level].start(self._num_loads, blocks * self._plan.block_bytes, self._step_start)
        self._loads[self._num_loads] = TierLoad(live, first, wanted, len(by_level))
        self._num_loads += 1
        live.expected = live.tokens - stop * self.block_size
        return True

    def _runs_to_load(self, live: LiveRequest, runs: list[TierRun]) -> list[TierRun]:
        """Return the runs to load: all of them, or up to the first that is computed in less time."""
        if self._plan.takes == "always":
            return runs
        size, taken = self.block_size, list[TierRun]()
        for run in runs:
            computed = self._times.seconds(live.tokens, run.first * size) - self._times.seconds(
                live.tokens, run.stop * size
            )
            if self.links[run.level].seconds(run.blocks * self._plan.block_bytes) >= computed:
                break
            taken.append(run)
        return taken

    def _has_room(self, live: LiveRequest, hits: list[int], stop: int) -> bool:
        """Return whether blocks for the load are free, and where the scheduler reserves whole prompts, for all of the prompt."""
        if not self.pool.limited:
            return True
        whole = -(-live.tokens // self.block_size) if self.config.scheduler_reserve_full_isl else stop
        return whole - len(hits) <= self.pool.free - len(self.pool.idle(hits))

    def _begin(self, live: LiveRequest, hits: int) -> None:
        first = not live.computed
        super()._begin(live, hits)
        load = self._loaded.pop(live, None)
        if load is not None and first:
            loaded = max(min(hits, load.hits + len(load.names)) - load.hits, 0)
            self._ledger.hit_blocks[live.request.number] -= loaded
            self._ledger.loaded_tokens[live.request.number] = loaded * self.block_size

    def _release(self, live: LiveRequest) -> None:
        """Release its blocks; its blocks become the latest used below, too."""
        size = self.block_size
        known = len(live.request.blocks) if self._plan.rules.answers else live.request.prompt_tokens // size
        if self.config.enable_prefix_caching:
            self._stack.used(live.request.blocks[: min(live.registered, known)])
        super()._release(live)

    def check(self) -> None:
        """Assert that blocks, requests and counts agree, here and below."""
        self._check_held([load.live for load in self._loads.values()])
        self._stack.check()
        assert self._loading == {name for load in self._loads.values() for name in load.names}
        assert sum(len(link) for link in self.links.values()) == sum(load.parts for load in self._loads.values())
        assert not any(live.blocks for live in self._delayed)
