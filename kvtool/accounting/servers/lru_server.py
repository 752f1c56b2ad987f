"""The rules of trace studies: an LRU list of blocks, whole requests at a time, no answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.caches.block_lru import BlockLru
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.alone_server import served_by_engine
from kvtool.accounting.servers.server import ByNumber, Requests, RunCounts, ServedRequest, ServerTraits, one_by_one
from kvtool.engine.blocks.chain_numbers import Chain
from kvtool.engine.blocks.hashing import extend_hashes
from kvtool.engine.events import Event
from kvtool.workload.drive import first_turns
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation

if TYPE_CHECKING:
    from kvtool.accounting.ledger.ledger import LedgerEntry


class LruServer:
    """Take requests by an LRU list of their blocks."""

    traits = ServerTraits(whole_prompt_may_hit=True)

    def __init__(self, plan: Plan, *, by_number: bool) -> None:
        """Create the server. `by_number`: requests of a trace may come as chains of numbers."""
        self._plan = plan
        blocks, self._size = plan.engine.num_blocks, plan.engine.block_size
        self._lru = BlockLru(None if blocks is None else (blocks or 1) - 1)
        whole_blocks = by_number and plan.engine.plan is None and self._size > 1
        self.by_number = ByNumber(self._serve_chain, self.serve) if whole_blocks else None

    def admit(self, job: Job) -> None:
        """Admit any request: there is no limit that it could exceed."""

    def predicts(self, job: Job) -> bool:
        """Return True: there are rules for each request."""
        del job
        return True

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Take all requests, in the order of the workload."""
        one_by_one(self, first_turns(conversations, self._plan.limit), requests)

    def serve(self, job: Job, entry: LedgerEntry | None) -> ServedRequest:
        """Take a request from its submission to its end."""
        del entry
        request = job.request
        if job.is_trace:
            hits = self._lru.request(job.block_names())
            request.num_cached_tokens = min(hits * job.unit, request.num_prompt_tokens)
        else:
            extend_hashes(request, self._size)
            hits = self._lru.request(request.block_hashes)
            request.num_cached_tokens = hits * self._size
        request.outputs = list(request.output_ids or [])
        return served_by_engine(self._plan, request.num_cached_tokens)

    def _serve_chain(self, chain: Chain, tokens: int, answer: int) -> tuple[int, int]:
        del answer
        return min(self._lru.request(chain.numbers) * self._size, tokens), 0

    def take_events(self) -> Sequence[Event]:
        """Give nothing: the list records no events."""
        return ()

    def counts(self) -> RunCounts:
        """Return the counts so far."""
        return RunCounts(evictions=self._lru.num_evictions, filled_blocks=len(self._lru))
