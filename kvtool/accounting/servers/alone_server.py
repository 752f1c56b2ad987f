"""The embedded engine with one request at a time, without going through single steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import (
    ByNumber,
    Requests,
    RunCounts,
    Rungs,
    ServedRequest,
    ServerTraits,
    one_by_one,
)
from kvtool.engine.blocks.block_pool import BlockPool
from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.blocks.make_cache import make_cache
from kvtool.engine.events import Event
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.workload.drive import first_turns
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation

if TYPE_CHECKING:
    from kvtool.accounting.caches.relaxed_engines import RelaxedEngines
    from kvtool.accounting.ledger.ledger import LedgerEntry


class AloneServer:
    """Take each request through the engine's scheduler and cache at once, as single steps would leave these."""

    traits = ServerTraits(follows_engine=True)
    by_number: ByNumber | None = None

    def __init__(
        self, plan: Plan, *, record_events: bool = False, numbers: ChainNumbers | None = None, ladder: bool = False
    ) -> None:
        """Create the server. `ladder`: relaxed engines run beside an engine with several KV cache groups, and give the cost of
        each limit."""
        self.plan = plan
        self.cache = make_cache(plan.engine, record_events=record_events, numbers=numbers)
        self.scheduler = Scheduler(plan.engine, self.cache)
        self._relaxed: RelaxedEngines | None = None
        if ladder and plan.engine.plan is not None:
            from kvtool.accounting.caches.relaxed_engines import RelaxedEngines

            self._relaxed = RelaxedEngines(plan.engine)

    def admit(self, job: Job) -> None:
        """Raise EngineError for a request that would never run."""
        self.scheduler.check_fits(job.request)

    def predicts(self, job: Job) -> bool:
        """Return True: there are rules for each request."""
        del job
        return True

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Take all requests, in the order of the workload."""
        one_by_one(self, first_turns(conversations, self.plan.limit), requests)

    def serve(self, job: Job, entry: LedgerEntry | None) -> ServedRequest:
        """Take a request from its submission to its end."""
        account(self.scheduler, job.request, fits=True)  # or `admit` had refused it
        rungs: Rungs = ()
        if self._relaxed is not None and entry is not None:
            self._relaxed.execute(job)
            rungs = self._relaxed.rungs(job, entry.own)
        return served_by_engine(self.plan, job.request.num_cached_tokens, rungs)

    def take_events(self) -> Sequence[Event]:
        """Return the recorded events of the cache since the last call."""
        return self.cache.take_events()

    def counts(self) -> RunCounts:
        """Return the counts so far."""
        return engine_counts(self.scheduler, self.cache)


def served_by_engine(plan: Plan, hit: int, rungs: Rungs = (), waited: float | None = None) -> ServedRequest:
    """Return the result of a request of the engine; an unlimited cache evicts nothing."""
    evicted = [("evicted", hit)] if plan.engine.num_blocks is None else []
    return ServedRequest(hit, [*evicted, *rungs] or None, waited)


def engine_counts(scheduler: Scheduler, cache: BlockPool) -> RunCounts:
    """Return an engine's counts."""
    return RunCounts(
        evictions=cache.num_evictions,
        preemptions=scheduler.num_preemptions,
        filled_blocks=cache.num_filled,
        peak_used_blocks=cache.peak_used,
        queries=scheduler.stats.queries,
        hit_queries=scheduler.stats.hits,
    )
