"""The embedded engine's pool in the run of a trace: one request at a time, blocks by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.alone_server import AloneServer, served_by_engine
from kvtool.accounting.servers.server import ByNumber, Requests, RunCounts, ServeChain, ServedRequest, one_by_one
from kvtool.engine.blocks.chain_numbers import Chain, TraceNumbers
from kvtool.engine.blocks.sequential_pool import SequentialPool
from kvtool.engine.events import Event
from kvtool.workload.drive import first_turns
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation

if TYPE_CHECKING:
    from kvtool.accounting.ledger.ledger import LedgerEntry


class PoolServer:
    """Serve requests as the engine does with a pool of numbered contents, without block ids."""

    traits = AloneServer.traits

    def __init__(self, plan: Plan, numbers: TraceNumbers) -> None:
        self._plan = plan
        self._engine = AloneServer(plan, numbers=numbers.tenants)
        self._pool = SequentialPool(plan.engine, self._engine.scheduler.stats, numbers.tenants)
        whole_blocks = plan.engine.plan is None and plan.engine.block_size > 1
        self.by_number = ByNumber(served_by_pool(self._pool, plan), self.serve) if whole_blocks else None
        self.admit = self._engine.admit
        self.predicts = self._engine.predicts

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Take all requests, in the order of the workload."""
        one_by_one(self, first_turns(conversations, self._plan.limit), requests)

    def serve(self, job: Job, entry: LedgerEntry | None) -> ServedRequest:
        """Take a request from its submission to its end."""
        del entry
        self._pool.execute(job.request)
        return served_by_engine(self._plan, job.request.num_cached_tokens)

    def take_events(self) -> Sequence[Event]:
        """Give nothing: the pool records no events."""
        return ()

    def counts(self) -> RunCounts:
        """Return the counts so far."""
        pool = self._pool
        return replace(
            self._engine.counts(),
            evictions=pool.num_evictions,
            filled_blocks=pool.num_filled,
            peak_used_blocks=pool.peak_used,
        )


def served_by_pool(pool: SequentialPool, plan: Plan) -> ServeChain:
    """Serve chains by the engine's rules, as `SequentialPool.execute` takes a request."""
    engine = plan.engine
    size, longest, caching = engine.block_size, engine.max_model_len, engine.enable_prefix_caching
    take = pool.take

    def serve(chain: Chain, tokens: int, answer: int) -> tuple[int, int]:
        outputs = min(answer, longest - tokens)
        computed = tokens + max(outputs - 1, 0)  # the last sampled token is never computed
        if not caching:
            take(chain.numbers[:0], 0, -(-computed // size), 0)
            return 0, outputs
        hits = take(chain.numbers[: tokens // size], (tokens - 1) // size, -(-computed // size), computed // size)
        return hits * size, outputs

    return serve
