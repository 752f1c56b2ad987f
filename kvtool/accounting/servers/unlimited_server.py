"""The embedded engine with unlimited room: all earlier computed tokens hit, and no block is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.accounting.caches.unlimited import ComputedPrefixes, UnlimitedCache
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.alone_server import AloneServer, served_by_engine
from kvtool.accounting.servers.pool_server import PoolServer
from kvtool.accounting.servers.server import ByNumber, Requests, RunCounts, ServedRequest, one_by_one
from kvtool.engine.events import Event
from kvtool.engine.stats import PrefixCacheStats
from kvtool.workload.drive import first_turns
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation

if TYPE_CHECKING:
    from kvtool.accounting.ledger.ledger import LedgerEntry


class UnlimitedServer:
    """Replace an engine for prompts with tokens; that engine takes the others."""

    traits = AloneServer.traits

    def __init__(self, plan: Plan, engine: AloneServer | PoolServer) -> None:
        self._plan = plan
        self._engine = engine
        self._stats = PrefixCacheStats()
        self._cache = UnlimitedCache(plan.engine, self._stats)
        self._seen: ComputedPrefixes | None = None
        """The ledger's facts about requests, for runs without a ledger."""
        chains = engine.by_number
        self.by_number = None if chains is None else ByNumber(chains.serve_chain, self.serve)
        self.admit = engine.admit
        self.predicts = engine.predicts

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Take all requests, in the order of the workload."""
        one_by_one(self, first_turns(conversations, self._plan.limit), requests)

    def serve(self, job: Job, entry: LedgerEntry | None) -> ServedRequest:
        """Take a request from its submission to its end."""
        if job.prompt is None:
            return self._engine.serve(job, entry)
        self._cache.execute(job.request, self._reachable(job) if entry is None else entry.reachable)
        return served_by_engine(self._plan, job.request.num_cached_tokens)

    def _reachable(self, job: Job) -> int:
        if self._seen is None:
            self._seen = ComputedPrefixes(self._plan.engine.block_size)
        return self._seen.reachable(job.ids, job.computed_output(), job.turn.salt)

    def take_events(self) -> Sequence[Event]:
        """Return nothing: without blocks there are no events."""
        return ()

    def counts(self) -> RunCounts:
        """Return the counts so far."""
        engine, cache = self._engine.counts(), self._cache
        return replace(
            engine,
            filled_blocks=engine.filled_blocks + cache.num_filled,
            peak_used_blocks=max(engine.peak_used_blocks, cache.peak_used),
            queries=engine.queries + self._stats.queries,
            hit_queries=engine.hit_queries + self._stats.hits,
        )
