"""The trace of a run's KV events: admissions, the tokens stored for each request, and the place where the events break off."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kvtool.measure.servers.kv_events.event_batches import (
    MEDIUM,
    ClearedBlocks,
    EventBatch,
    FollowedGroup,
    KVEvent,
    RemovedBlocks,
    ServedHash,
    StoredBlocks,
    low_64,
)
from kvtool.measure.servers.kv_events.event_state import Break, SequenceCheck

_LONGEST_CHAIN = 1 << 20


@dataclass(slots=True)
class Stored:
    """Tokens stored for one session. `start` is the first of them, None where the text before it is not known."""

    start: int | None
    tokens: list[int]
    """The prompt and the answer from their first token on, as far as blocks of them were stored; empty where `start` is None."""
    last: ServedHash | None = None


@dataclass(slots=True)
class EventTrace:
    """Events in their order; `cleared` and `breaks` are before the events at these places."""

    events: list[StoredBlocks | RemovedBlocks] = field(default_factory=list)
    began_empty: bool = False
    """Whether the cache was empty when they begin: cleared, or the server just started."""
    admitted: dict[str, int] = field(default_factory=dict)
    """Sessions, with the place of their first event."""
    stored: dict[str, Stored] = field(default_factory=dict)
    anonymous: int = 0
    """Blocks that were stored for nobody who gave a name."""
    cleared: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """After the events at these places a batch ended: one batch is what one step of the server published."""
    moments: list[float] = field(default_factory=list)
    """When each of these batches was published, by the server's clock."""
    breaks: list[tuple[int, Break]] = field(default_factory=list)
    several: bool = False
    """Whether events are of several KV cache groups; tokens are read from those of one that stores every block."""
    followed: FollowedGroup = field(default_factory=FollowedGroup)
    _chains: dict[ServedHash, tuple[ServedHash | None, tuple[int, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, batches: Iterable[EventBatch], *, before: Iterable[EventBatch] = ()) -> EventTrace:
        """Read all batches of a run, in the order in which they came; `before` it others may have stored what it builds on."""
        trace = cls()
        for batch in before:
            for event in batch.events:
                if isinstance(event, StoredBlocks) and trace.followed.takes(event):
                    trace._chain(event)
        checks: dict[int, SequenceCheck] = {}
        for batch in batches:
            if not trace.events and not trace.cleared and batch.seq in (0, None):
                trace.began_empty = True
            for read in checks.setdefault(batch.rank, SequenceCheck()).take(batch):
                if isinstance(read, Break):  # a run may begin at any number; after its first batch none may be missing
                    trace.breaks.append((len(trace.events), read))
                else:
                    trace._take(read)
            if len(trace.events) > (trace.ends[-1] if trace.ends else 0):
                trace.ends.append(len(trace.events))
                trace.moments.append(batch.at)
        return trace

    def _take(self, event: KVEvent) -> None:
        if isinstance(event, ClearedBlocks):
            if self.events:
                self.cleared.append(len(self.events))
            else:
                self.began_empty = True
            return
        if event.medium not in (None, MEDIUM):
            return
        if isinstance(event, StoredBlocks):
            self._store(event)
        self.several |= event.group_idx not in (None, 0)
        self.events.append(event)

    def _chain(self, event: StoredBlocks) -> ServedHash | None:
        """Keep what its blocks hold; returns the hash of its last one."""
        size, tokens, parent = event.block_size, event.token_ids, event.parent_block_hash
        if tokens is not None:
            for index, each in enumerate(event.block_hashes):
                self._chains[each] = (parent, tokens[size * index : size * (index + 1)])
                parent = each
        return parent

    def _store(self, event: StoredBlocks) -> None:
        session, is_read = event.session_id, self.followed.takes(event)
        if session is not None:
            self.admitted.setdefault(session, len(self.events))
        if not is_read:
            return
        tokens, parent = event.token_ids, self._chain(event)
        if session is None:
            self.anonymous += len(event.block_hashes)
            return
        known = self.stored.get(session)
        if tokens is None:
            self.stored.setdefault(session, Stored(None, []))
        elif known is None:
            before = self._tokens_before(event.parent_block_hash)
            start = None if before is None else len(before)
            self.stored[session] = Stored(start, [*(before or ()), *tokens] if start is not None else [], parent)
        elif known.start is not None and known.last == event.parent_block_hash:
            known.tokens += tokens
            known.last = parent

    def _tokens_before(self, parent: ServedHash | None) -> list[int] | None:
        """Return the tokens of a chain of blocks; None where one of them was stored before these events."""
        parts: list[tuple[int, ...]] = []
        while parent is not None:
            found = self._chains.get(parent)
            if found is None or len(parts) > _LONGEST_CHAIN:
                return None
            parent = found[0]
            parts.append(found[1])
        return [token for part in reversed(parts) for token in part]

    def hits_of(self, session: str | None, num_tokens: int, block_size: int) -> int | None:
        """Return the tokens that a request found in the cache, as its own stored blocks show it; None where they do not."""
        found = self.stored.get(session or "")
        if found is None or found.start is None or found.start >= num_tokens:
            return None
        return found.start if found.start % block_size == 0 else None

    def foreign(self, ours: Collection[str]) -> list[str]:
        """Return sessions that are not ours, in the order in which they were admitted."""
        return [session for session in self.admitted if session not in ours]

    @property
    def first_stored(self) -> StoredBlocks | None:
        """Return the first prompt's first blocks, from which the seed of the hashes is told."""
        stored = (each for each in self.events if isinstance(each, StoredBlocks) and each.block_hashes)
        return next((each for each in stored if each.parent_block_hash is None and self.followed.takes(each)), None)

    def by_hash(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """Return each event by the server's hashes."""
        return [
            (
                named("stored", each.group_idx),
                0 if each.parent_block_hash is None else low_64(each.parent_block_hash),
                _low(each.block_hashes),
            )
            if isinstance(each, StoredBlocks)
            else (named("removed", each.group_idx), 0, _low(each.block_hashes))
            for each in self.events
        ]

    def by_content(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """Return each event by the content of its blocks, as `ContentNames` numbers it; unknown blocks are -1."""
        names = ContentNames()
        known: dict[ServedHash, int] = {}
        found: list[tuple[str, int, tuple[int, ...]]] = []
        for each in self.events:
            if isinstance(each, RemovedBlocks):
                found.append(("removed", 0, tuple(known.get(one, -1) for one in each.block_hashes)))
                continue
            parent = 0 if each.parent_block_hash is None else known.get(each.parent_block_hash, -1)
            made = names.of(parent, array("i", each.token_ids or ()).tobytes(), len(each.block_hashes))
            known.update(zip(each.block_hashes, made, strict=True))
            found.append(("stored", parent, made))
        return found


class ContentNames:
    """Numbers that are for blocks by what they hold and what is before them, the same in every run: digests."""

    def of(self, parent: int, tokens: bytes, blocks: int) -> tuple[int, ...]:
        """Return the chain of so many blocks after a parent (0: none; -1: not known)."""
        import xxhash

        found: list[int] = []
        width = len(tokens) // blocks if blocks else 0
        for index in range(blocks):
            parent = (
                xxhash.xxh3_64_intdigest(parent.to_bytes(9, "big", signed=True) + tokens[width * index :][:width]) >> 1
            )
            found.append(parent)
        return tuple(found)


def named(kind: str, group: int | None) -> str:
    """Return the kind of an event with its group."""
    return f"{kind} {group}" if group else kind


def _low(hashes: tuple[ServedHash, ...]) -> tuple[int, ...]:
    return tuple(low_64(each) for each in hashes)
