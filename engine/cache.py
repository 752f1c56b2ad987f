"""The block manager: which block holds what, who uses it, and which one goes next."""

from __future__ import annotations

from kvtool.engine.cached_blocks import Copies, HashedBlocks, NumberedBlocks
from kvtool.engine.chain_numbers import ChainNumbers
from kvtool.engine.config import EngineConfig
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from kvtool.engine.free_queue import NULL_BLOCK, FreeQueue
from kvtool.engine.free_set import FreeSet
from kvtool.engine.hashing import BlockHash, block_hasher
from kvtool.engine.request import Request

_UNLIMITED = 1 << 60
_NO_HITS: list[int] = []


class BlockManager:
    """Paged KV blocks with vLLM V1's automatic prefix caching.

    `contents` knows which block holds what, by hash or, for a trace without events, by number.

    A block that is not in the free queue has one holder and those that `sharers` counts, so most blocks need no count at all.
    """

    def __init__(
        self, config: EngineConfig, *, record_events: bool = False, numbers: ChainNumbers | None = None
    ) -> None:
        """`numbers` made the `prompt_numbers` of requests; then no events are recorded, as they tell hashes."""
        assert numbers is None or not record_events
        self.config = config
        self.block_size = config.block_size
        self.limited = config.num_blocks is not None
        num_blocks = self.num_blocks = config.num_blocks if config.num_blocks is not None else 1
        """Blocks in the pool, with the null block."""
        unordered = numbers is not None and not self.limited
        self.free_queue = FreeSet() if unordered else FreeQueue(num_blocks)
        self.sharers: dict[int, int] = {}
        hasher = block_hasher(config.hash_algo, config.hash_seed)
        self.contents = (
            HashedBlocks(num_blocks, config.block_size, hasher)
            if numbers is None
            else NumberedBlocks(num_blocks, config.block_size, numbers, hasher)
        )
        self.events: list[Event] | None = [] if record_events else None
        self.num_evictions = 0
        self.num_stored = 0
        self.peak_used = 0

    @property
    def hashes(self) -> list[BlockHash | None]:
        """What each block holds, where it goes by hashes."""
        return self._hashed.hashes

    @property
    def cached(self) -> dict[BlockHash, int]:
        """The block that holds a hash; of several the one that was registered first."""
        return self._hashed.cached

    @property
    def copies(self) -> Copies[BlockHash]:
        """The hashes that several blocks hold."""
        return self._hashed.copies

    @property
    def _hashed(self) -> HashedBlocks:
        assert isinstance(self.contents, HashedBlocks), "contents go by number here"
        return self.contents

    @property
    def refs(self) -> list[int]:
        """How many requests hold each block."""
        refs = [1 + self.sharers.get(block, 0) for block in range(self.num_blocks)]
        for block in (NULL_BLOCK, *self.free_queue):
            refs[block] -= 1
        return refs

    @property
    def num_free(self) -> int:
        return self.free_queue.size if self.limited else _UNLIMITED

    @property
    def num_filled(self) -> int:
        """Blocks that hold cached content or are held by requests."""
        if not self.num_used:
            return self.contents.count()
        return sum(refs > 0 or self.contents.holds(block) for block, refs in enumerate(self.refs))

    @property
    def num_used(self) -> int:
        """Blocks that requests hold now."""
        return self.num_blocks - 1 - self.free_queue.size

    def match(self, request: Request) -> list[int]:
        """Physical ids of the longest cached prefix of a request of which nothing is computed.

        At most ``(num_tokens - 1) // block_size`` blocks: the last token is always computed, as its logits are needed.
        """
        if not self.config.enable_prefix_caching or request.skip_reading_cache:
            return []
        self.contents.extend(request)
        return self.contents.find(request, (request.num_tokens - 1) // self.block_size)

    def _own_blocks(self, request: Request, num_tokens: int, hits: list[int]) -> int:
        slots = min(num_tokens, self.config.max_model_len)
        return max(-(-slots // self.block_size) - len(request.block_ids) - len(hits), 0)

    def allocate(
        self, request: Request, num_new: int, hits: list[int] = _NO_HITS, *, reserve: int = 0, whole: bool = False
    ) -> bool:
        """Give the request blocks for `num_new` tokens after those computed and hit; False (and no change) if too few are free.

        `reserve` free blocks are left over (the watermark). `whole` also demands room for all of the request's known tokens (vLLM's
        admission gate), without taking it.
        """
        block_size = self.block_size
        computed = request.num_computed_tokens + len(hits) * block_size + num_new
        if computed > len(request.block_ids) * block_size:  # most decode steps find room in the last block
            waking = self.free_queue.among(hits)
            own = self._own_blocks(request, computed, hits)
            if self.limited:
                free = self.free_queue.size - len(waking) - reserve
                if own > free or (whole and self._own_blocks(request, request.num_tokens, hits) > free):
                    return False
            self._hold(request, hits, waking)
            request.block_ids += self._take(own)
            used = self.num_blocks - 1 - self.free_queue.size
            if used > self.peak_used:
                self.peak_used = used
        if computed // block_size > request.num_registered_blocks:
            self.register(request, min(computed, request.num_tokens))
        return True

    def _hold(self, request: Request, hits: list[int], waking: list[int]) -> None:
        """Make the request one more holder of the hit blocks, of which `waking` have none yet."""
        self.free_queue.remove(waking)
        if len(waking) < len(hits):
            sharers = self.sharers
            alone = set(waking)
            for block in hits:
                if block not in alone:
                    sharers[block] = sharers.get(block, 0) + 1
        request.block_ids += hits
        request.num_registered_blocks += len(hits)

    def _take(self, count: int) -> list[int]:
        """Take `count` blocks from the head of the free queue, evicting what they hold; an unlimited pool grows instead."""
        free_queue, contents = self.free_queue, self.contents
        if self.limited:
            blocks = free_queue.take(count)
            self._evict(blocks)
            return blocks
        blocks = []
        while len(blocks) < count and (head := free_queue.peek()) and not contents.holds(head):
            blocks += free_queue.take(1)
        grown = free_queue.grow(count - len(blocks))
        contents.grow(len(grown))
        self.num_blocks += len(grown)
        return [*blocks, *grown]

    def _evict(self, blocks: list[int]) -> None:
        """Forget what the blocks hold, if anything."""
        left = self.contents.leave(blocks)
        self.num_evictions += len(left)
        if self.events is not None:
            self.events += [BlockRemoved(each) for each in left if not isinstance(each, int)]

    def register(self, request: Request, num_tokens: int) -> None:
        """Make the blocks that the first `num_tokens` tokens fill hittable.

        Scheduled tokens are registered with their allocation, before they are computed; those that are known only later, then.
        """
        full = num_tokens // self.block_size
        if not self.config.enable_prefix_caching or full <= request.num_registered_blocks:
            return
        self.contents.extend(request)
        first = request.num_registered_blocks
        self.contents.enter(request, first, full)
        request.num_registered_blocks = full
        self.num_stored += full - first
        if self.events is not None:
            parent = request.block_hashes[first - 1] if first else None
            tokens = None
            if request.prompt_ids is not None:
                tokens = request.token_ids(first * self.block_size, full * self.block_size)
            new = tuple(request.block_hashes[first:full])
            self.events.append(BlockStored(new, parent, tokens, request.cache_salt, request.lora))

    def free(self, request: Request) -> None:
        """Give the request's blocks back, tail first, so that the tail of a prompt is evicted before its head."""
        sharers = self.sharers
        full = request.num_registered_blocks
        cached, rest = request.block_ids[:full], request.block_ids[full:]
        if sharers:
            left: list[int] = []
            for block in cached:
                others = sharers.get(block, 0)
                if not others:
                    left.append(block)
                elif others == 1:
                    del sharers[block]
                else:
                    sharers[block] = others - 1
            cached = left
        cached.reverse()
        self.free_queue.append(cached)
        self.free_queue.prepend(rest)
        request.block_ids.clear()
        request.num_registered_blocks = 0

    def reset(self) -> bool:
        """Forget every cached block, if no request holds one; the order of the free queue stays."""
        if self.num_used:
            return False
        self.contents.clear()
        if self.events is not None:
            self.events.append(AllBlocksCleared())
        return True

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events or [], None if self.events is None else []
        return events

    def check(self) -> None:
        """Assert every invariant of the pool."""
        self.free_queue.check()
        assert not self.sharers.keys() & {NULL_BLOCK, *self.free_queue}
        assert all(count > 0 for count in self.sharers.values())
        self.contents.check()
        assert len(self.contents) == self.num_blocks
