"""The pool of blocks: free blocks, users, contents and the events of contents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.cached_blocks import Copies, HashedBlocks, NumberedBlocks
from kvtool.engine.blocks.free_queue import NULL_BLOCK, FreeQueue
from kvtool.engine.blocks.unlimited_free_set import FreeSet
from kvtool.engine.config import EngineConfig
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, Event
from kvtool.engine.request import Request

UNLIMITED = 1 << 60
"""Free blocks of a pool that grows."""


class BlockPool(ABC):
    """One pool of block ids, with the operations of managers of any number of groups and of the scheduler.

    `contents` maps blocks to contents, by hash or, for a trace without events, by number.

    A block outside the free queue has one user plus those that `sharers` counts, so most blocks need no count.
    """

    def __init__(
        self,
        config: EngineConfig,
        contents: HashedBlocks | NumberedBlocks,
        free: FreeQueue | FreeSet,
        *,
        record_events: bool,
    ) -> None:
        self.config = config
        self.block_size = config.block_size
        self.limited = config.num_blocks is not None
        self.num_blocks = len(contents)
        """Blocks in the pool, with the null block."""
        self.free_queue: FreeQueue | FreeSet = free
        self.sharers: dict[int, int] = {}
        self.contents = contents
        self.events: list[Event] | None = [] if record_events else None
        self.num_evictions = 0
        self.num_stored = 0
        self.peak_used = 0

    @property
    def hashes(self) -> list[BlockHash | None]:
        """Hashes by block, if contents are hashes."""
        return self._hashed.hashes

    @property
    def cached(self) -> dict[BlockHash, int]:
        """The block of each hash; of several the one registered first."""
        return self._hashed.cached

    @property
    def copies(self) -> Copies[BlockHash]:
        """The hashes that several blocks have."""
        return self._hashed.copies

    @property
    def _hashed(self) -> HashedBlocks:
        assert isinstance(self.contents, HashedBlocks), "contents go by number here"
        return self.contents

    @property
    def refs(self) -> list[int]:
        """Number of requests that use each block."""
        refs = [1 + self.sharers.get(block, 0) for block in range(self.num_blocks)]
        for block in (NULL_BLOCK, *self.free_queue):
            refs[block] -= 1
        return refs

    @property
    def num_free(self) -> int:
        return self.free_queue.size if self.limited else UNLIMITED

    @property
    def num_filled(self) -> int:
        """Blocks with cached content or in use by requests."""
        if not self.num_used:
            return self.contents.count()
        return sum(refs > 0 or self.contents.holds(block) for block, refs in enumerate(self.refs))

    @property
    def num_used(self) -> int:
        """Blocks in use by requests now."""
        return self.num_blocks - 1 - self.free_queue.size

    def begin_step(self) -> None:  # noqa: B027 - one group has nothing to do
        """Note that a step is about to be scheduled."""

    def end_step(self) -> tuple[tuple[int, int], ...]:
        """Return a step was scheduled; return the blocks that it copies before it runs, each with the block it is copied to."""
        return ()

    @abstractmethod
    def look_up(self, request: Request) -> int:
        """Find the longest cached prefix of a request of which nothing is computed, and remember it; return its tokens."""

    @abstractmethod
    def admit(self, request: Request, num_new: int, *, reserve: int = 0, whole: bool = False) -> bool:
        """Allocate for the request that was looked up last, with the hit blocks.

        `reserve` free blocks are left over (the watermark). `whole` also demands room for all of the request's known tokens
        (vLLM's admission gate), without taking it.
        """

    @abstractmethod
    def allocate(self, request: Request, num_new: int) -> bool:
        """Give the request blocks for `num_new` tokens after those computed; False if too few are free."""

    @abstractmethod
    def register(self, request: Request, num_tokens: int) -> None:
        """Make the blocks that the first `num_tokens` tokens fill hittable."""

    @abstractmethod
    def free(self, request: Request) -> None:
        """Give the request's blocks back, the tail of a table first, so that the tail of a prompt is evicted before its head."""

    @abstractmethod
    def blocks_needed(self, num_tokens: int) -> int:
        """Return blocks without which a request of so many tokens could never run."""

    @abstractmethod
    def check_users(self, running: Iterable[Request]) -> None:
        """Assert that these requests, and nobody else, use the blocks that are not free."""

    def _touch(self, blocks: list[int], waking: list[int]) -> None:
        """Add a user to each of the blocks, of which `waking` have none yet."""
        self.free_queue.remove(waking)
        if len(waking) < len(blocks):
            sharers = self.sharers
            alone = set(waking)
            for block in blocks:
                if block not in alone:
                    sharers[block] = sharers.get(block, 0) + 1

    def _take(self, count: int) -> list[int]:
        """Take `count` blocks from the head of the free queue and evict their contents; an unlimited pool grows instead."""
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
        """Remove the blocks' contents, if any."""
        left = self.contents.leave(blocks)
        self.num_evictions += len(left)
        if self.events is not None:
            self.events += [self.removal(each) for each in left if not isinstance(each, int)]

    def removal(self, content: BlockHash) -> BlockRemoved:
        """Return the event of an evicted content."""
        return BlockRemoved(content)

    def _drop_users(self, blocks: list[int]) -> list[int]:
        """Take a holder from each of the blocks, one after the other; return those that have none any more."""
        sharers = self.sharers
        if not sharers:
            return blocks
        left: list[int] = []
        for block in blocks:
            others = sharers.get(block, 0)
            if not others:
                left.append(block)
            elif others == 1:
                del sharers[block]
            else:
                sharers[block] = others - 1
        return left

    def reset(self) -> bool:
        """Remove every cached content if no request uses a block; the order of the free queue stays."""
        if self.num_used:
            return False
        self.contents.clear()
        if self.events is not None:
            self.events.append(AllBlocksCleared())
        return True

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self.events = self.events or [], None if self.events is None else []
        return events

    def check(self) -> None:
        """Assert every invariant of the pool."""
        self.free_queue.check()
        assert not self.sharers.keys() & {NULL_BLOCK, *self.free_queue}
        assert all(count > 0 for count in self.sharers.values())
        self.contents.check()
        assert len(self.contents) == self.num_blocks
