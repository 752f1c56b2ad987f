"""Text that looks sensitive in prefixes that several sessions or groups share: found, counted and placed, never kept.

A shared prefix is a side channel: who sends the same beginning is answered sooner. What is in it should be known to all who
share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.text.sensitive import find_sensitive, may_be_sensitive
from kvtool.text.traced import Origin, Traced
from kvtool.workload.jobs import Job
from kvtool.workload.turn import RequestName

_BLOCK = 16
"""Tokens of the blocks that prefixes are compared by here, whatever the engine's are."""


_BEFORE = 64
"""Characters before the new text that are searched, too: what begins there may end in it."""


_MOST_KEPT = 2_000


_MOST_PARTIES = 1_000


Party = tuple[str, str]
"""Who sends a request, as far as it says: no group and its tenant, or else its group and its session."""


@dataclass(slots=True)
class Sensitive:
    """One place of one kind of text, and who shares the prefix with it."""

    kind: str
    group: str
    origin: Origin | None
    offset: int
    record: RequestName | None = None
    """The request of a log in which it was first seen."""
    parties: set[Party] = field(default_factory=set)
    requests: int = 1


class SensitiveBook(Book):
    """Looks at the text that each request brings, and remembers by hash which prefixes have something in them."""

    def __init__(self) -> None:
        self._known: dict[BlockHash, list[Sensitive]] = {}
        """By the hash of the prefix up to the block in which the text ends."""
        self._kept = 0

    def begin(self, job: Job, entry: LedgerEntry | None) -> None:
        assert entry is not None
        self.add(job, entry.own)

    def add(self, job: Job, shared: int) -> None:
        """Enter a request whose first `shared` tokens an earlier one of the same salt had, too."""
        prompt = job.prompt
        if prompt is None or prompt.text is None or not len(prompt):
            return
        found = list(islice(self._new(job, prompt.text, shared), _MOST_KEPT - self._kept))
        if not found and not self._known:
            return
        whole = len(job.ids) // _BLOCK * _BLOCK
        hashes = NATIVE.chain(job.ids[:whole], _BLOCK, None, job.turn.salt, None)
        tenant = job.turn.call.tenant
        party = (job.turn.group, job.turn.session or "") if tenant is None else ("", tenant)
        for block in hashes[: shared // _BLOCK]:
            for place in self._known.get(block, ()):
                place.requests += 1
                if len(place.parties) < _MOST_PARTIES:
                    place.parties.add(party)
        for block_number, place in found:
            if block_number < len(hashes) and self._kept < _MOST_KEPT:
                place.parties.add(party)
                self._known.setdefault(hashes[block_number], []).append(place)
                self._kept += 1

    def _new(self, job: Job, text: Traced, shared: int) -> Iterator[tuple[int, Sensitive]]:
        """Yield what is in text that no earlier request had, and the block in which it ends."""
        prompt = job.prompt
        assert prompt is not None
        plain, begins = _plain(text), prompt.char_before(shared) if shared < len(prompt) else None
        if begins is None or not may_be_sensitive(plain, max(begins - _BEFORE, 0)):
            return
        first = prompt.char_range(shared)
        if first is None:
            return
        start = max(first[0] - _BEFORE, 0)
        for kind, low, high in find_sensitive(plain, start):
            if high > first[0]:
                origin, offset = text.at(low)
                yield (
                    prompt.token_at(high - 1) // _BLOCK,
                    Sensitive(kind, job.turn.group, origin, offset, job.turn.name),
                )

    def shared(self) -> list[Sensitive]:
        """Return what several sessions or groups share, one for each place and kind, in the order in which it was found."""
        merged: dict[tuple[str, str, Origin | None, int], Sensitive] = {}
        for place in (place for places in self._known.values() for place in places):
            if len(place.parties) < 2:
                continue
            key = place.kind, place.group, place.origin, place.offset
            other = merged.get(key)
            both = place.parties | other.parties if other is not None else set(place.parties)
            requests = place.requests + (other.requests if other is not None else 0)
            merged[key] = replace(place, parties=both, requests=requests)
        return list(merged.values())


def _plain(text: Traced) -> str:
    """Return the text without its origins: patterns run faster over it, and slices of it are cheap."""
    return str.__getitem__(text, slice(None))
