"""Measure the cost of blocks: hits for several block sizes from one pass, and the smallest edit that gains a block.

If a prompt of n tokens shares its first L with something earlier, an unlimited cache with blocks of B tokens hits
``min(L, n - 1) // B`` of them, so one number a request answers for every size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kvtool.accounting.book import Book
from kvtool.accounting.counts import Counts
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.results.report import Boundary, Edit, LeftOver, SizeHits
from kvtool.text.terminal.numbers import plural
from kvtool.workload.jobs import Job

SIZES = (16, 32, 64, 128, 256, 528, 784, 1600)
"""Block sizes that engines use: powers of two, and those to which hybrid models resolve."""
MIN_SHARED = 8
"""Tokens in common below which two prompts share nothing but how their chat template begins."""


@dataclass(slots=True)
class SizeTotals:
    """One block size: hit tokens, requests with a hit, and requests that share something, but less than a block."""

    hit_tokens: int = 0
    hit_requests: int = 0
    short_requests: int = 0


@dataclass(slots=True)
class GroupBoundary:
    """A group's requests by block size. `remainders` counts them by how far into a block their shared prefix reaches."""

    name: str
    block_size: int
    requests: int = 0
    first: int = 0
    """How far into a block the first request shares: with other groups, whose text an edit of this group does not change."""
    prompt_tokens: int = 0
    nothing: int = 0
    """Requests that share fewer than `MIN_SHARED` tokens."""
    sizes: dict[int, SizeTotals] = field(default_factory=dict)
    remainders: Counter[int] = field(default_factory=Counter)

    def padding(self) -> Edit | None:
        """Return the addition at the front that saves most, the smallest of equals; None where every one costs more than it saves.

        k tokens more make each prompt k longer, and a request hits another block where its shared prefix lacks at most k of one.
        """
        best: Edit | None = None
        gained = 0
        for remainder in sorted(
            (each for each in self.remainders if each), reverse=True
        ):  # less would gain no request more
            tokens = self.block_size - remainder
            gained += self.remainders[remainder] - (remainder == self.first)
            saved = self.block_size * gained - tokens * self.requests
            if saved > (best.tokens_saved if best is not None else 0):
                best = Edit(add_tokens=tokens, requests_gained=gained, tokens_saved=saved)
        return best

    def boundary(self) -> Boundary:
        """Return the boundary as reports contain it."""
        return Boundary(
            group=self.name,
            block_size=self.block_size,
            requests=self.requests,
            prompt_tokens=self.prompt_tokens,
            nothing_shared_requests=self.nothing,
            sizes=[
                SizeHits(
                    block_size=size,
                    hit_tokens=totals.hit_tokens,
                    hit_requests=totals.hit_requests,
                    shared_too_short_requests=totals.short_requests,
                )
                for size, totals in self.sizes.items()
            ],
            left_over=[LeftOver(tokens=tokens, requests=count) for tokens, count in sorted(self.remainders.items())],
            edit=self.padding(),
        )


def padding_sentence(edit: Edit, requests: int) -> str:
    """Return a sentence: the padding of a group of so many requests, and how many of them gain a block."""
    gained = f"{edit.requests_gained:,} of {plural(requests, 'request')}"
    added = plural(edit.add_tokens, "token")
    more = edit.add_tokens * requests
    effect = (
        f"reuses {edit.tokens_saved + more:,} tokens more, adds {more:,}: saves {plural(edit.tokens_saved, 'token')}"
    )
    return f"add {added} of shared text at the front: {gained} then hit one more block ({effect})"


class BoundaryBook(Book):
    """Count for each group the hits with blocks of each size; keep counts only."""

    def __init__(self, block_size: int, *, whole_prompt_may_hit: bool = False) -> None:
        """Create the book. `block_size` is the one in use; `whole_prompt_may_hit` is the rule of trace studies: no token must be
        computed."""
        self.block_size = block_size
        self.whole_prompt_may_hit = whole_prompt_may_hit
        self._groups: dict[str, GroupBoundary] = {}

    def begin(self, job: Job, entry: LedgerEntry | None) -> None:
        assert entry is not None
        self.add(job.turn.group, entry.num_tokens, entry.own, unit=job.unit)

    def add_batch(self, batch: TracedBatch) -> None:
        for name, part in batch.of_groups(batch.rows()):
            self.add_all(name, part.tokens, part.own, unit=batch.unit)

    def add(self, group: str, prompt_tokens: int, shared: int, *, unit: int = 1) -> None:
        """Enter a request that shares its first `shared` tokens with earlier ones, known to `unit` tokens.

        A trace of block hashes gives only multiples of its own block size.
        """
        entry = self._group(group, unit)
        usable = shared if self.whole_prompt_may_hit else min(shared, max(prompt_tokens - 1, 0))
        if not entry.requests:
            entry.first = usable % self.block_size
        entry.requests += 1
        entry.prompt_tokens += prompt_tokens
        entry.nothing += usable < MIN_SHARED
        entry.remainders[usable % self.block_size] += 1
        for size, totals in entry.sizes.items():
            hit = usable // size * size
            totals.hit_tokens += hit
            totals.hit_requests += hit > 0
            totals.short_requests += MIN_SHARED <= usable < size

    def add_all(self, group: str, prompt_tokens: Counts, shared: Counts, *, unit: int) -> None:
        """Enter many requests of a group, none of them empty; each array has one item a request."""
        entry = self._group(group, unit)
        usable = shared if self.whole_prompt_may_hit else np.minimum(shared, prompt_tokens - 1)
        if not entry.requests and len(usable):
            entry.first = int(usable[0]) % self.block_size
        entry.requests += len(usable)
        entry.prompt_tokens += int(prompt_tokens.sum())
        nothing = int((usable < MIN_SHARED).sum())
        entry.nothing += nothing
        entry.remainders.update((usable % self.block_size).tolist())
        for size, totals in entry.sizes.items():
            hit = usable // size * size
            totals.hit_tokens += int(hit.sum())
            totals.hit_requests += int((hit > 0).sum())
            totals.short_requests += max(int((usable < size).sum()) - nothing, 0)

    def _group(self, name: str, unit: int) -> GroupBoundary:
        entry = self._groups.get(name)
        if entry is None:
            sizes = sorted({self.block_size, *SIZES})
            entry = self._groups[name] = GroupBoundary(name, self.block_size)
            entry.sizes = {size: SizeTotals() for size in sizes if size % unit == 0}
        return entry

    def __iter__(self) -> Iterator[GroupBoundary]:
        """Return the groups in the order of their first request."""
        return iter(self._groups.values())

    def get(self, group: str) -> GroupBoundary | None:
        """Return a group, where it had requests."""
        return self._groups.get(group)
