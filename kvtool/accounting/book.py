"""Records of one aspect of each request of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.servers.server import ServedRequest
from kvtool.engine.blocks.chain_numbers import Chain
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.ledger.ledger import LedgerEntry
    from kvtool.accounting.ledger.traced_batch import TracedBatch


class Book:
    """A book of a run. Each method does nothing by default; a run calls only the methods that a book overrides.

    Requests of a trace may come many at a time: then `add_numbered` gets each of them when it is served, and `add_batch` all of
    them later, in place of `begin` and `end`.
    """

    takes_batches = True
    """False where the book needs each request of a trace by itself."""

    def begin(self, job: Job, entry: LedgerEntry | None, /) -> None:
        """Enter a request that will run; `entry` is None where the run's ledger only counts."""

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest, /) -> None:
        """Enter the result of a request. Its ledger entry is not settled yet."""

    def leave_out(self, job: Job, /) -> None:
        """Enter a request that is not predicted: no cache rules are known for its model."""

    def add_numbered(self, turn: Turn, chain: Chain, /) -> None:
        """Enter a request of a trace that comes in a batch, when it is served."""

    def add_batch(self, batch: TracedBatch, /) -> None:
        """Enter many requests of a trace that are done."""

    def close(self) -> None:
        """Enter facts that are known only at the end of the run."""


def overrides(books: Sequence[Book], method: str) -> list[Callable[..., None]]:
    """Return a method of each book that does something in it, in the order of the books."""
    return [getattr(book, method) for book in books if getattr(type(book), method) is not getattr(Book, method)]
