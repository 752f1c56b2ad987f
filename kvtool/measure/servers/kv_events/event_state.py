"""Contents of a server's prefix cache, from its KV events: a count for each hash, and a name for what it stands for.

A server's hashes may be made with a seed that nobody knows. A block's name is made here, of its parent's name, its tokens and its
keys, so that a prompt's blocks are found by what they hold.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NewType

import numpy as np
import xxhash

from kvtool.measure.servers.kv_events.event_batches import (
    MEDIUM,
    ClearedBlocks,
    EventBatch,
    FollowedGroup,
    KVEvent,
    RemovedBlocks,
    ServedHash,
    StoredBlocks,
)

Keys = tuple[Any, ...] | None
"""What a block's hash is made of beside its parent and its tokens: an adapter's name, a salt, a picture's hash with its place."""
BlockName = NewType("BlockName", bytes)
"""Equal names: equal tokens and keys from the start of the prompt to the end of the block."""
_ROOT = BlockName(b"")
MOST_GONE = 1_000_000
"""Evicted blocks of which the names are remembered, the last ones; nobody can hit them, and nothing is stored after them."""


def block_names(
    tokens: Sequence[int], block_size: int, keys: Sequence[Keys] = (), parent: BlockName = _ROOT
) -> list[BlockName]:
    """Return the names of full blocks that follow each other; `keys` are those of the first ones."""
    data = np.asarray(tokens, dtype="<i4").tobytes()
    width = 4 * block_size
    names: list[BlockName] = []
    last = parent
    for index in range(len(tokens) // block_size):
        key = keys[index] if index < len(keys) else None
        extra = repr([tuple(part) if isinstance(part, list) else part for part in key]).encode() if key else b""
        last = BlockName(xxhash.xxh3_128_digest(last + data[width * index : width * (index + 1)] + extra))
        names.append(last)
    return names


@dataclass(frozen=True, slots=True)
class Break:
    """A gap in the events of a publisher: batches are missing or were not read, or it began anew.

    `missing` counts the batches that nobody saw (None: not known how many). After a restart the cache is empty, and known to be.
    """

    rank: int
    seq: int
    missing: int | None
    restarted: bool = False
    problem: str | None = None
    """Why a batch was not read."""

    def __str__(self) -> str:
        if self.problem is not None:
            return self.problem
        if self.restarted:
            return f"rank {self.rank} restarted at batch {self.seq:,}"
        if self.missing is None:
            return f"batch {self.seq:,} of rank {self.rank} is unreadable or out of order"
        batches = "1 batch is" if self.missing == 1 else f"{self.missing:,} batches are"
        return f"{batches} missing before number {self.seq:,} of rank {self.rank}"


class SequenceCheck:
    """Reads the batches of one publisher in order, and says where they do not follow each other.

    `known`: every batch since an empty cache was read. Counts are those of restarts, of clearings and of gaps.
    """

    def __init__(self) -> None:
        self.known = False
        self.restarts = self.cleared = self.gaps = 0
        self._begun = False
        self._next: int | None = None

    def take(self, batch: EventBatch) -> Iterator[Break | KVEvent]:
        """Yield where the batch does not follow the one before, then its events; after a clearing, the cache is `known`."""
        if not self._begun:
            self._begun, self.known = True, not batch.seq  # a file without numbers holds every batch
        for found in self._breaks(batch):
            self.known = found.restarted
            self.restarts += found.restarted
            yield found
        for event in batch.events:
            yield event
            if isinstance(event, ClearedBlocks):
                self.cleared += 1
                self.known = True
        if batch.lost:
            self.known = False  # a reset in it may have come before what was not read

    def _breaks(self, batch: EventBatch) -> Iterator[Break]:
        found: list[Break] = []
        if batch.seq is not None:
            expected, self._next = self._next, batch.seq + 1
            if expected is not None and batch.seq != expected:
                missing = batch.seq - expected if batch.seq > expected else None
                found.append(Break(batch.rank, batch.seq, missing if batch.seq else None, restarted=not batch.seq))
        if batch.lost:
            found.append(Break(batch.rank, batch.seq or 0, None, problem=next(iter(batch.problems), None)))
        self.gaps += any(not each.restarted for each in found)
        yield from found


class EventState:
    """The blocks that one data-parallel rank can hit.

    A block may be stored in several copies, which are removed one by one. After a gap nothing is `known` until the cache is
    cleared: a hash may be there or not. Tiers below the server's own cache take no part, and of several groups of layers with
    caches of their own only the first that keeps every block.
    """

    def __init__(self) -> None:
        self.check = SequenceCheck()
        self.block_size: int | None = None
        self.followed = FollowedGroup()
        self.groups: set[int] = set()
        """Groups of layers that have stored or removed; a model with one kind of attention has one."""
        self.copies: dict[ServedHash, int] = {}
        """How many blocks hold a hash; none that is 0."""
        self.hashes: dict[BlockName, ServedHash] = {}
        """The hash of whatever is held; of what was removed the last `MOST_GONE`."""
        self.names: dict[ServedHash, BlockName] = {}
        self._gone: OrderedDict[ServedHash, None] = OrderedDict()
        """Named, and held no more: those that went first come first."""
        self.contradictions = 0
        """Removals of what was not there: events are missing, or came twice."""

    @property
    def known(self) -> bool:
        """Return whether every batch since an empty cache was read."""
        return self.check.known

    def apply(self, event: KVEvent) -> None:
        """Take an event in."""
        if isinstance(event, ClearedBlocks):
            self.clear()
        elif event.medium in (None, MEDIUM):
            self.groups.add(event.group_idx or 0)
            if not self.followed.takes(event):
                return
            if isinstance(event, StoredBlocks):
                self._store(event)
            else:
                self._remove(event)

    def clear(self) -> None:
        """Forget all blocks: the cache is empty."""
        for each in self.copies:
            self._went(each)
        self.copies.clear()
        self._forget()

    def _store(self, event: StoredBlocks) -> None:
        self.block_size = event.block_size
        for each in event.block_hashes:
            self.copies[each] = self.copies.get(each, 0) + 1
            self._gone.pop(each, None)
        for each, name in zip(event.block_hashes, self.names_of(event), strict=False):
            self.names[each] = name
            self.hashes[name] = each

    def _remove(self, event: RemovedBlocks) -> None:
        for each in event.block_hashes:
            left = self.copies.get(each, 0) - 1
            if left > 0:
                self.copies[each] = left
            elif left == 0:
                del self.copies[each]
                self._went(each)
            elif self.known:
                self.contradictions += 1
        self._forget()

    def _went(self, gone: ServedHash) -> None:
        if gone in self.names:
            self._gone[gone] = None

    def _forget(self) -> None:
        """Forget the names of what was evicted long ago."""
        while len(self._gone) > MOST_GONE:
            gone, _ = self._gone.popitem(last=False)
            name = self.names.pop(gone)
            if self.hashes.get(name) == gone:
                del self.hashes[name]

    def names_of(self, event: StoredBlocks) -> list[BlockName]:
        """Return the names of an event's blocks; none where it reports no tokens, or its parent was never seen."""
        parent = _ROOT if event.parent_block_hash is None else self.names.get(event.parent_block_hash)
        if event.token_ids is None or parent is None:
            return []
        return block_names(event.token_ids, event.block_size, event.extra_keys or (), parent)

    def hits(self, names: Sequence[BlockName], num_tokens: int) -> int:
        """Return how many blocks of a prompt of `num_tokens` would be hit now; its last token is always computed."""
        if self.block_size is None:
            return 0
        most = max(num_tokens - 1, 0) // self.block_size
        blocks = 0
        for name in names[:most]:
            if self.hashes.get(name) not in self.copies:
                break
            blocks += 1
        return blocks


class RankStates:
    """A state for each data-parallel rank, and where the batches of one do not follow each other."""

    def __init__(self) -> None:
        self.ranks: dict[int, EventState] = {}
        self.breaks: list[Break] = []

    def take(self, batch: EventBatch) -> Iterator[tuple[EventState, KVEvent]]:
        """Yield each event of a batch with the state before it; the event is applied when the next one is asked for."""
        state = self.ranks.get(batch.rank)
        if state is None:
            state = self.ranks[batch.rank] = EventState()
        for event in state.check.take(batch):
            if not isinstance(event, Break):
                yield state, event
                state.apply(event)
                continue
            self.breaks.append(event)
            if event.restarted:
                state.clear()

    def add(self, batch: EventBatch) -> None:
        """Take a whole batch in."""
        for _ in self.take(batch):
            pass
