"""The block manager: which block holds what, who uses it, and which one goes next."""

from __future__ import annotations

from kvtool.engine.config import EngineConfig
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from kvtool.engine.free_queue import FreeQueue
from kvtool.engine.hashing import BlockHash, extend_hashes
from kvtool.engine.request import Request

_UNLIMITED = 1 << 60


class BlockManager:
    """Paged KV blocks with vLLM V1's automatic prefix caching.

    A block keeps its hash after it was freed, until it is reused; `cached` maps a hash to the block that holds it, or, where
    several copies exist, to all of them in the order of registration (a lookup returns the oldest).
    """

    def __init__(self, config: EngineConfig, *, record_events: bool = False) -> None:
        self.config = config
        self.block_size = config.block_size
        self.limited = config.num_blocks is not None
        num_blocks = config.num_blocks if config.num_blocks is not None else 1
        self.free_queue = FreeQueue(num_blocks)
        self.refs = [0] * num_blocks
        self.hashes: list[BlockHash | None] = [None] * num_blocks
        self.cached: dict[BlockHash, int | dict[int, None]] = {}
        self.events: list[Event] | None = [] if record_events else None
        self.num_evictions = 0
        self.num_stored = 0
        self.peak_used = 0

    @property
    def num_blocks(self) -> int:
        """Blocks in the pool, with the null block."""
        return len(self.refs)

    @property
    def num_free(self) -> int:
        return self.free_queue.size if self.limited else _UNLIMITED

    @property
    def num_filled(self) -> int:
        """Blocks that hold cached content or are held by requests."""
        return sum(refs > 0 or block_hash is not None for refs, block_hash in zip(self.refs, self.hashes, strict=True))

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
        extend_hashes(request, self.block_size)
        cached = self.cached
        hits: list[int] = []
        for block_hash in request.block_hashes[: (request.num_tokens - 1) // self.block_size]:
            block = cached.get(block_hash)
            if block is None:
                break
            hits.append(block if isinstance(block, int) else next(iter(block)))
        return hits

    def blocks_needed(self, request: Request, num_tokens: int, hits: list[int]) -> int:
        """Free blocks it takes for the request to own blocks for `num_tokens` tokens, given these hits."""
        refs = self.refs
        slots = min(num_tokens, self.config.max_model_len)
        own = -(-slots // self.block_size) - len(request.block_ids) - len(hits)
        return max(own, 0) + sum(not refs[block] for block in hits)

    def allocate(
        self, request: Request, num_new: int, hits: list[int], *, reserve: int = 0, whole: bool = False
    ) -> bool:
        """Give the request blocks for `num_new` tokens after those computed and hit; False (and no change) if too few are free.

        `reserve` free blocks are left over (the watermark). `whole` also demands room for all of the request's known tokens (vLLM's
        admission gate), without taking it.
        """
        block_size = self.block_size
        base = request.num_computed_tokens + len(hits) * block_size
        need = self.blocks_needed(request, base + num_new, hits)
        if self.limited:
            free = self.free_queue.size
            if whole and self.blocks_needed(request, request.num_tokens, hits) + reserve > free:
                return False
            if need + reserve > free:
                return False
        reused = 0
        refs, free_queue = self.refs, self.free_queue
        for block in hits:
            if not refs[block]:
                free_queue.remove(block)
                reused += 1
            refs[block] += 1
        table = request.block_ids
        table += hits
        self._take(table, need - reused)
        used = self.num_used
        if used > self.peak_used:
            self.peak_used = used
        if self.config.enable_prefix_caching:
            request.num_registered_blocks += len(hits)
            full = min(base + num_new, request.num_tokens) // block_size
            if full > request.num_registered_blocks:
                self._register(request, full)
        return True

    def _take(self, table: list[int], count: int) -> None:
        """Move `count` blocks from the head of the free queue to a block table, evicting what they hold."""
        free_queue, refs, hashes = self.free_queue, self.refs, self.hashes
        after, before = free_queue.next, free_queue.prev
        if not self.limited:
            while count and (block := after[0]) and hashes[block] is None:
                free_queue.remove(block)
                refs[block] = 1
                table.append(block)
                count -= 1
            first = len(refs)
            for _ in range(count):
                free_queue.grow()
            table += range(first, first + count)
            refs += [1] * count
            hashes += [None] * count
            return
        block = 0
        for _ in range(count):
            block = after[block]
            refs[block] = 1
            if hashes[block] is not None:
                self._evict(block)
            table.append(block)
        if count:
            head = after[block]
            for taken in table[-count:]:
                after[taken] = -1
            after[0] = head
            before[head] = 0
            free_queue.size -= count

    def _evict(self, block: int) -> None:
        block_hash = self.hashes[block]
        assert block_hash is not None
        self.hashes[block] = None
        self.num_evictions += 1
        copies = self.cached[block_hash]
        if isinstance(copies, int):
            del self.cached[block_hash]
        else:
            del copies[block]
            if len(copies) == 1:
                self.cached[block_hash] = next(iter(copies))
        if self.events is not None:
            self.events.append(BlockRemoved(block_hash))

    def _register(self, request: Request, full: int) -> None:
        """Make the request's blocks up to `full` hittable; they are registered when scheduled, before they are computed."""
        extend_hashes(request, self.block_size)
        first = request.num_registered_blocks
        cached, hashes, table = self.cached, self.hashes, request.block_ids
        new = request.block_hashes[first:full]
        for index, block_hash in enumerate(new, first):
            block = table[index]
            hashes[block] = block_hash
            held = cached.setdefault(block_hash, block)
            if held is not block:
                if isinstance(held, int):
                    if held != block:
                        cached[block_hash] = {held: None, block: None}
                else:
                    held[block] = None
        request.num_registered_blocks = full
        self.num_stored += full - first
        if self.events is not None:
            parent = request.block_hashes[first - 1] if first else None
            self.events.append(BlockStored(tuple(new), parent))

    def free(self, request: Request) -> None:
        """Give the request's blocks back, tail first, so that the tail of a prompt is evicted before its head."""
        refs, hashes = self.refs, self.hashes
        caching = self.config.enable_prefix_caching
        front: list[int] = []
        back: list[int] = []
        for block in reversed(request.block_ids):
            left = refs[block] - 1
            refs[block] = left
            if not left:
                (back if caching and hashes[block] is not None else front).append(block)
        if front:
            self.free_queue.prepend(front)
        if back:
            self.free_queue.append(back)
        request.block_ids.clear()
        request.num_registered_blocks = 0

    def reset(self) -> bool:
        """Forget every cached block, if no request holds one; the order of the free queue stays."""
        if self.num_used:
            return False
        self.hashes = [None] * self.num_blocks
        self.cached.clear()
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
        free = set(self.free_queue)
        assert self.refs[0] == 0
        assert all((block in free) == (refs == 0) for block, refs in enumerate(self.refs) if block)
        copies = {
            (block_hash, block)
            for block_hash, held in self.cached.items()
            for block in ([held] if isinstance(held, int) else held)
        }
        assert copies == {(block_hash, block) for block, block_hash in enumerate(self.hashes) if block_hash is not None}
        assert all(isinstance(held, int) or len(held) > 1 for held in self.cached.values())
