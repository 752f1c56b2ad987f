"""Tokens that a tenant found in the cache and that only others had sent: it can learn of them.

The speed of an answer, or a provider's count of cached tokens, reveals them. Text that every tenant of a cache sends is public,
and left out. A tree contains the senders; only places of texts are kept, no texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.prefix_tree import Ids
from kvtool.accounting.servers.server import ServedRequest
from kvtool.text.align import common_prefix
from kvtool.text.traced import Origin
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

_MOST_TENANTS = 4_096
"""The most tenants with separate sums (a bit each in every edge); later ones are left out."""


@dataclass(frozen=True, slots=True)
class ObservedTokens:
    """Tokens of `owner`, who sent them first, that `reader` hit without having sent them before; and their places."""

    owner: str
    reader: str
    tokens: int
    origin: Origin | None
    offset: int


class _Node:
    """An edge, its senders (a bit for each), the first sender, and the first readers with their hits."""

    __slots__ = ("children", "ids", "origin", "owner", "reads", "tenants")

    def __init__(self, ids: Ids, owner: int, origin: tuple[Origin | None, int]) -> None:
        self.ids = ids
        self.owner = owner
        self.tenants = 1 << owner
        self.reads: list[tuple[int, int]] = []
        """Readers, and how many of the edge's tokens they hit."""
        self.origin = origin
        self.children: dict[int, _Node] = {}

    def split(self, length: int) -> _Node:
        """Cut the edge after so many tokens and return the upper part; this one becomes the lower."""
        upper = _Node(self.ids[:length].copy(), self.owner, self.origin)
        upper.tenants = self.tenants
        upper.reads = [(reader, min(tokens, length)) for reader, tokens in self.reads]
        self.reads = [(reader, tokens - length) for reader, tokens in self.reads if tokens > length]
        self.ids = self.ids[length:].copy()
        upper.children[int(self.ids[0])] = self
        return upper


class ObservableBook(Book):
    """Take each request with its tenant and its hit."""

    def __init__(self, scope: Callable[[Turn], str | None] = lambda turn: turn.salt) -> None:
        """Create the book. `scope` names the cache that a request can read."""
        self._scope = scope
        self._roots: dict[str, _Node] = {}
        self._numbers: dict[str, int] = {}

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        self.add(job, self._scope(job.turn) or "", served.hit)

    @property
    def tenants(self) -> list[str]:
        """The tenants with separate sums, in the order of their first request."""
        return list(self._numbers)

    def add(self, job: Job, scope: str, hit: int) -> None:
        """Enter a request; `scope` is the cache that it can read. One without a tenant, and a trace of hashes, give no data."""
        tenant = job.turn.call.tenant
        if tenant is None or job.is_trace:
            return
        if tenant not in self._numbers and len(self._numbers) == _MOST_TENANTS:
            return
        number = self._numbers.setdefault(tenant, len(self._numbers))
        node = self._roots.setdefault(scope, _Node(np.empty(0, np.int32), number, (None, 0)))
        node.tenants |= 1 << number
        at, ids = 0, job.ids
        while at < len(ids):
            first = int(ids[at])
            child = node.children.get(first)
            if child is None:
                node.children[first] = _Node(ids[at:].copy(), number, _origin(job, (at + len(ids)) // 2))
                return
            shared = common_prefix(child.ids, ids[at:])
            if shared < len(child.ids):
                child = node.children[first] = child.split(shared)
            read = min(hit - at, shared)
            if read > 0 and not child.tenants >> number & 1:
                child.reads.append((number, read))
            child.tenants |= 1 << number
            at += shared
            node = child

    def observed(self) -> list[ObservedTokens]:
        """Return all that is not public, in no particular order; complete when every request was entered."""
        names = self.tenants
        found: list[ObservedTokens] = []
        stack = [(root.tenants, child) for root in self._roots.values() for child in root.children.values()]
        while stack:
            everyone, node = stack.pop()
            stack.extend((everyone, child) for child in node.children.values())
            if node.tenants != everyone:
                origin, offset = node.origin
                found += [
                    ObservedTokens(names[node.owner], names[reader], tokens, origin, offset)
                    for reader, tokens in node.reads
                ]
        return found


def _origin(job: Job, token: int) -> tuple[Origin | None, int]:
    """Return a token's place in the source; one token in the middle of an edge represents all of it."""
    if job.prompt is None or job.prompt.text is None:
        return None, 0
    place = job.prompt.char_range(token)
    if place is None or place[0] >= len(job.prompt.text):
        return None, 0
    return job.prompt.text.at(place[0])


def by_pair(observed: list[ObservedTokens]) -> Counter[tuple[str, str]]:
    """Return tokens by sender and reader."""
    found: Counter[tuple[str, str]] = Counter()
    for one in observed:
        found[one.owner, one.reader] += one.tokens
    return found
