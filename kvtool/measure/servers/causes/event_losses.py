"""Tokens that servers computed again although a cache had them, sorted by cause, from KV events alone.

A stored block was computed. If some cache computed the same content before, its tokens could have been hits, and the state of the
caches at this moment shows why they were not:

==============  ==========================================================================================
recomputed      this cache still held the block: it could not be used as a whole prefix
salts           this cache held the same tokens for another `cache_salt`; adapters: for another LoRA
capacity        this cache had evicted the block
reset, restart  this cache was cleared, or the server was started again
routing         another engine or server held the block
repeated        no cache ever had this prefix, but the same text occurred after another beginning
first use       none of these
==============  ==========================================================================================
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from kvtool.accounting.quantiles import quantiles
from kvtool.measure.servers.causes.repeated_text import RepeatedText
from kvtool.measure.servers.kv_events.event_batches import (
    MEDIUM,
    ClearedBlocks,
    EventBatch,
    FollowedGroup,
    RemovedBlocks,
    ServedHash,
    StoredBlocks,
)
from kvtool.measure.servers.kv_events.event_state import BlockName, Break, Keys, SequenceCheck, block_names

Loss = Literal[
    "recomputed",
    "groups",
    "concurrency",
    "last_block",
    "salts",
    "adapters",
    "capacity",
    "reset",
    "restart",
    "routing",
    "repeated",
    "first_use",
]
MOST_BLOCKS = 500_000
"""Blocks that are remembered of all caches together."""
MOST_CACHES = 256
"""Servers and ranks that are followed."""
_ROOT = BlockName(b"")


@dataclass(frozen=True, slots=True)
class LossSums:
    """Tokens of stored blocks by cause; all together are the stored tokens."""

    tokens: Counter[Loss] = field(default_factory=Counter)
    block_size: int | None = None
    caches: int = 0
    groups: int = 0
    """Most groups of layers of one cache."""
    more_blocks: int | None = None
    """Blocks by which a cache must grow to keep 9 of 10 of the blocks that were evicted and computed again; an upper bound."""
    first_difference: int | None = None
    """The token, from 1, after which most repeated text is lost."""
    cleared: int = 0
    restarts: int = 0
    gaps: int = 0
    whole: bool = True
    """Whether every batch since an empty cache was read."""
    notes: tuple[str, ...] = ()

    @property
    def stored(self) -> int:
        """Return all stored tokens."""
        return sum(self.tokens.values())


@dataclass(slots=True)
class _Block:
    """A block that a cache holds."""

    content: BlockName
    keys: tuple[str | None, str]
    """Its adapter, and its other keys as text."""
    copies: int
    batch: int


class EventLosses:
    """Takes the batches of several servers in; memory is bounded whatever they publish."""

    def __init__(self) -> None:
        self.tokens: Counter[Loss] = Counter()
        self.holders: Counter[BlockName] = Counter()
        """In how many caches the content of a block is."""
        self.seen: OrderedDict[BlockName, None] = OrderedDict()
        self.repeated = RepeatedText()
        self.distances: list[float] = []
        self.block_size: int | None = None
        self._caches: dict[tuple[int, int], _Cache] = {}
        self._notes: dict[str, None] = {}

    def add(self, server: int, batch: EventBatch) -> None:
        """Take a batch of the server of that number in."""
        cache = self._caches.get((server, batch.rank))
        if cache is None:
            if len(self._caches) == MOST_CACHES:
                self._notes[f"KV events of more than {MOST_CACHES} caches are not counted"] = None
                return
            cache = self._caches[server, batch.rank] = _Cache(self)
        cache.add(batch)

    def begin_span(self) -> None:
        """Forget what was counted, and keep what the caches hold: the span begins now."""
        self.tokens.clear()
        self.distances.clear()
        self.repeated.forget_differences()
        for cache in self._caches.values():
            cache.cleared = cache.check.restarts = cache.check.gaps = 0

    def remember(self, content: BlockName) -> None:
        """Remember that a block was computed; the oldest ones are forgotten."""
        self.seen[content] = None
        while len(self.seen) > MOST_BLOCKS:
            self.seen.popitem(last=False)
            self._notes["blocks from long ago are forgotten: they count as first use when stored again"] = None

    def count(self, loss: Loss, tokens: int) -> None:
        """Count stored tokens."""
        if tokens:
            self.tokens[loss] += tokens

    def sums(self) -> LossSums:
        """Return the sums of all caches."""
        caches = self._caches.values()
        far = quantiles(self.distances)
        return LossSums(
            tokens=Counter(self.tokens),
            block_size=self.block_size,
            caches=len(caches),
            groups=max((len(cache.groups) for cache in caches), default=0),
            more_blocks=None if far is None else int(far.p90),
            first_difference=self.repeated.first_difference,
            cleared=sum(cache.cleared for cache in caches),
            restarts=sum(cache.check.restarts for cache in caches),
            gaps=sum(cache.check.gaps for cache in caches),
            whole=all(cache.check.known for cache in caches),
            notes=tuple(self._notes),
        )


class _Cache:
    """The blocks of one rank of one server."""

    def __init__(self, losses: EventLosses) -> None:
        self.groups: set[int] = set()
        self.cleared = 0
        """How often it was cleared while it held something."""
        self.check = SequenceCheck()
        self._losses = losses
        self._followed = FollowedGroup()
        self._held: dict[ServedHash, _Block] = {}
        self._of_content: dict[BlockName, list[ServedHash]] = {}
        self._gone: OrderedDict[BlockName, tuple[Loss, int]] = OrderedDict()
        """Content that was held, with why it went and the number of evictions before."""
        self._names: OrderedDict[ServedHash, tuple[BlockName, int]] = OrderedDict()
        """Content and depth of a hash, also after it went."""
        self._evictions = self._batches = 0

    def add(self, batch: EventBatch) -> None:
        self._batches += 1
        for event in self.check.take(batch):
            if isinstance(event, Break):
                if event.restarted:
                    self._clear("restart")
            elif isinstance(event, ClearedBlocks):
                self.cleared += bool(self._held)
                self._clear("reset")
            elif event.medium in (None, MEDIUM):
                self._take(event)

    def _take(self, event: StoredBlocks | RemovedBlocks) -> None:
        self.groups.add(event.group_idx or 0)
        if not self._followed.takes(event):
            return
        if isinstance(event, StoredBlocks):
            self._store(event)
        else:
            self._remove(event)

    def _store(self, event: StoredBlocks) -> None:
        parent: BlockName | None = _ROOT
        depth = 0
        if event.parent_block_hash is not None:
            parent, depth = self._names.get(event.parent_block_hash, (None, 0))
        if event.token_ids is None or parent is None:
            names: Sequence[BlockName] = []
        else:
            names = block_names(event.token_ids, event.block_size, _pictures(event), parent)
        if not names:  # without tokens, a hash is the only name
            names = [BlockName(str(each).encode()) for each in event.block_hashes]
        losses = self._losses
        losses.block_size = event.block_size
        fresh: list[int] = []
        for at, (each, content) in enumerate(zip(event.block_hashes, names, strict=False)):
            keys = _keys(event, at)
            loss = self._why(each, content, keys, alone=len(event.block_hashes) == 1)
            if loss == "first_use":
                fresh.append(at)
            else:
                losses.count(loss, event.block_size)
            self._hold(each, content, keys, depth + at + 1)
        self._count_fresh(event, fresh, parent, depth)

    def _count_fresh(self, event: StoredBlocks, fresh: Sequence[int], parent: BlockName | None, depth: int) -> None:
        """Count blocks that no cache had: their text may have been there after another beginning."""
        if not fresh:
            return
        size, repeated = event.block_size, 0
        if event.token_ids is not None:
            tokens = event.token_ids[fresh[0] * size : (fresh[-1] + 1) * size]
            place = (depth + fresh[0]) * size
            repeated = self._losses.repeated.take(tokens, size, place, parent if not fresh[0] else None)
        self._losses.count("repeated", repeated)
        self._losses.count("first_use", len(fresh) * size - repeated)

    def _why(self, each: ServedHash, content: BlockName, keys: tuple[str | None, str], *, alone: bool) -> Loss:
        """Return why a block was computed."""
        held = self._held.get(each)
        if held is not None:
            if held.batch == self._batches:
                return "concurrency"
            if len(self.groups) > 1:
                return "groups"
            return "last_block" if alone else "recomputed"
        losses = self._losses
        if content not in losses.seen:
            return "first_use"
        for other in self._of_content.get(content, ()):
            return "adapters" if self._held[other].keys[0] != keys[0] else "salts"
        if (gone := self._gone.get(content)) is not None:
            loss, evictions = gone
            if loss == "capacity" and len(losses.distances) < MOST_BLOCKS:
                losses.distances.append(self._evictions - evictions)
            return loss
        return "routing" if losses.holders[content] else "first_use"

    def _hold(self, each: ServedHash, content: BlockName, keys: tuple[str | None, str], depth: int) -> None:
        self._names[each] = (content, depth)
        while len(self._names) > MOST_BLOCKS:
            self._names.popitem(last=False)
        held = self._held.get(each)
        if held is not None:
            held.copies += 1
            held.batch = self._batches
            return
        self._losses.remember(content)
        if len(self._held) >= MOST_BLOCKS:  # what is not followed counts as first use or as routing later
            self.check.known = False
            return
        self._held[each] = _Block(content, keys, 1, self._batches)
        of_content = self._of_content.setdefault(content, [])
        if not of_content:
            self._losses.holders[content] += 1
        of_content.append(each)
        self._gone.pop(content, None)

    def _remove(self, event: RemovedBlocks) -> None:
        for each in event.block_hashes:
            self._evictions += 1
            held = self._held.get(each)
            if held is None:
                continue
            held.copies -= 1
            if not held.copies:
                del self._held[each]
                self._drop(held.content, each, "capacity")

    def _drop(self, content: BlockName, each: ServedHash, why: Loss) -> None:
        of_content = self._of_content[content]
        of_content.remove(each)
        if of_content:
            return
        del self._of_content[content]
        self._losses.holders[content] -= 1
        if not self._losses.holders[content]:
            del self._losses.holders[content]
        self._gone[content] = (why, self._evictions)
        self._gone.move_to_end(content)
        while len(self._gone) > MOST_BLOCKS:
            self._gone.popitem(last=False)

    def _clear(self, why: Loss) -> None:
        for each, held in list(self._held.items()):
            self._drop(held.content, each, why)
        self._held.clear()


def _pictures(event: StoredBlocks) -> list[Keys]:
    """Return what the keys of blocks say of their content: pictures, whose tokens are equal. Salts and adapters are texts."""
    keys = event.extra_keys or ()
    return [None if key is None else tuple(part for part in key if not isinstance(part, str)) or None for key in keys]


def _keys(event: StoredBlocks, at: int) -> tuple[str | None, str]:
    """Return the adapter of a block and its other keys."""
    keys = event.extra_keys[at] if event.extra_keys is not None and at < len(event.extra_keys) else None
    adapter = event.lora_name or (None if event.lora_id is None else str(event.lora_id))
    return adapter, "" if keys is None else repr(keys)
