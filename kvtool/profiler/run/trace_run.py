"""Requests of a trace in batches: through the cache by their numbers, and into the books many at a time."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.book import Book, overrides
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import ByNumber, Server
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.impossible_requests import most_tokens
from kvtool.profiler.run.ledger_writers import LedgerWriter
from kvtool.workload.call import NO_CALL
from kvtool.workload.turn import Turn

_TOGETHER = 1 << 12
_MOST_BLOCKS = 1 << 20
"""Limits of a batch, in requests and in known blocks, so that its arrays stay small."""
_MOST_GROUPS = 64
"""Groups of which requests may go together: more would make small batches of each."""


class TraceRun:
    """Do the work of `RunLoop.begin` and `RunLoop.end`, with the same results; the books have the requests after `flush`."""

    def __init__(
        self,
        plan: Plan,
        numbers: TraceNumbers,
        by_number: ByNumber,
        ledger: LedgerWriter,
        books: Sequence[Book],
        *,
        follows_engine: bool,
    ) -> None:
        self.serve = by_number.serve
        self.queries = 0
        """Tokens looked up, and `hit_queries` those found."""
        self.hit_queries = 0
        self._numbers = numbers
        self._serve_chain = by_number.serve_chain
        self._add_numbered = overrides(books, "add_numbered")
        self._add_batch = [ledger.add_batch, *overrides(books, "add_batch")]
        engine = plan.engine
        self._size = engine.block_size
        self._longest = engine.max_model_len
        self._follows_engine = follows_engine
        self._counts_lookups = follows_engine and engine.enable_prefix_caching
        self._most_tokens = most_tokens(engine)
        self._batch = TracedBatch(self._size)

    def take(self, turn: Turn) -> bool:
        """Serve a request; return False for one that needs the long way: it has more data, or does not fit."""
        hashed = turn.hashed
        if (
            hashed is None
            or hashed.answer
            or hashed.block_size != self._size
            or turn.call is not NO_CALL
            or turn.session is not None
            or turn.index
        ):
            return False
        tokens, answer = hashed.num_tokens, max(turn.output_tokens or 1, 1)
        if self._follows_engine and not self._fits(tokens, answer):
            return False
        batch = self._batch
        group = batch.number(turn.group)
        if group >= _MOST_GROUPS:
            return False
        chain = hashed.chain
        if chain is None:
            chain = self._numbers.number(hashed.hash_ids, turn.salt)
        hit, outputs = self._serve_chain(chain, tokens, answer)
        batch.add(group, tokens, chain, hit, outputs)
        for add_numbered in self._add_numbered:
            add_numbered(turn, chain)
        if len(batch) >= _TOGETHER or len(batch.again) >= _MOST_BLOCKS:
            self.flush()
        return True

    def _fits(self, tokens: int, answer: int) -> bool:
        """Return whether `check_fits` would let it pass."""
        return 0 < tokens < self._longest and min(tokens + answer - 1, self._longest) <= self._most_tokens

    def flush(self) -> None:
        """Enter in the books the requests served since the last call."""
        batch = self._batch
        if not len(batch):
            return
        if self._counts_lookups:
            rows = batch.rows()
            self.queries += int(rows.tokens.sum())
            self.hit_queries += int(rows.hit.sum())
        for add_batch in self._add_batch:
            add_batch(batch)
        batch.clear()


def trace_run(
    plan: Plan, numbers: TraceNumbers | None, server: Server, ledger: LedgerWriter, books: Sequence[Book]
) -> TraceRun | None:
    """Make the batches of a run of a trace; None where the server, the ledger or a book needs each request by itself."""
    one_by_one = not ledger.takes_batches or not all(book.takes_batches for book in books)
    if numbers is None or server.by_number is None or one_by_one:
        return None
    return TraceRun(plan, numbers, server.by_number, ledger, books, follows_engine=server.traits.follows_engine)
