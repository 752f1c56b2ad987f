"""Collect the data of charts during the reported run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import Ledger, LedgerEntry
from kvtool.accounting.ledger.sums import Booked
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.accounting.prefix_tree import PrefixNode
from kvtool.accounting.views.reuse import ReuseBook
from kvtool.accounting.views.timeline import TimelineBook
from kvtool.accounting.views.tree import prefix_tree
from kvtool.accounting.views.worst import WorstBook
from kvtool.results.views import Timeline, Views
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn


class _Details:
    """Data that cost time and memory: collected only on request."""

    def __init__(self, block_size: int, *, whole_prompt_may_hit: bool) -> None:
        self.reuse = ReuseBook(block_size, whole_prompt_may_hit=whole_prompt_may_hit)
        self.worst = WorstBook()
        self.known: dict[PrefixNode, Counter[str]] = {}
        self.ids: dict[int, str] = {}
        """Ids of requests that are not settled, by owner."""


class ViewBook(Book):
    """Watch a ledger and the requests that are entered in it.

    Timelines are always kept; `details` adds the rest of `Views`. Memory does not grow with requests, but with groups (3 kB each)
    and with distinct prompts that were sent again (a count each; the ledger's trees contain all of their tokens).
    """

    def __init__(self, block_size: int, *, whole_prompt_may_hit: bool = False, details: bool = True) -> None:
        self._timeline = TimelineBook()
        self.takes_batches = not details
        self._details = _Details(block_size, whole_prompt_may_hit=whole_prompt_may_hit) if details else None

    @property
    def details(self) -> bool:
        """See `Watcher`."""
        return self._details is not None

    def begin(self, job: Job, entry: LedgerEntry | None) -> None:
        if self._details is not None and entry is not None:
            self._details.ids[entry.owner] = job.request.id
            self._details.reuse.add(job, entry.reachable)

    def known(self, node: PrefixNode, group: str) -> None:
        """See `Watcher`."""
        if self._details is not None:
            self._details.known.setdefault(node, Counter())[group] += 1

    def settled(
        self, owner: int, turn: Turn, prompt: Prompt | None, num_tokens: int, hit: int, booked: Sequence[Booked]
    ) -> None:
        """See `Watcher`."""
        self._timeline.add(turn.group, num_tokens, hit)
        details = self._details
        if details is not None:
            id_ = details.ids.pop(owner)
            details.worst.add(owner, id_, turn.group, turn.index, prompt, num_tokens, hit, booked)

    def settled_traced(self, batch: TracedBatch) -> None:
        """See `Watcher`."""
        assert self._details is None
        rows = batch.rows()
        self._timeline.add_all(batch.groups, rows.group, rows.tokens, rows.hit)

    def closed(self, owner: int, booked: Booked) -> None:
        """See `Watcher`."""
        if self._details is not None:
            self._details.worst.close(owner, booked)

    def timelines(self) -> list[Timeline]:
        """Return the hit rate in the course of the run."""
        return self._timeline.timelines()

    def views(self, ledger: Ledger) -> Views | None:
        """Return everything, once the ledger is closed; None without details."""
        details = self._details
        if details is None:
            return None
        prompts = chain(ledger.examples(), details.worst.prompts())
        return Views(
            timelines=self.timelines(),
            prefix_tree=prefix_tree(ledger.trees, ledger.owner, details.known, prompts),
            reuse=details.reuse.reuse(),
            worst=details.worst.worst(),
        )
