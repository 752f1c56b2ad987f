"""The blocks of one replica: their contents, by number, their users, and the order of eviction."""

from __future__ import annotations

from kvtool.engine.blocks.block_pool import UNLIMITED
from kvtool.engine.blocks.cached_blocks import Copies
from kvtool.engine.blocks.free_queue import NULL_BLOCK, FreeQueue
from kvtool.engine.blocks.unlimited_free_set import FreeSet

Name = int
"""Name of a block's content; negative if only one request can ask for it again."""


class ReplicaPool:
    """A `BlockManager` without requests, tokens and events, in the same order of eviction.

    A block that is not free has one holder and those that `_sharers` counts.
    """

    def __init__(self, num_blocks: int | None) -> None:
        """Create the pool. `num_blocks` includes the null block; None: it grows and never evicts."""
        self.limited = num_blocks is not None
        self._num_blocks = num_blocks or 1
        self._free: FreeQueue | FreeSet = FreeSet() if num_blocks is None else FreeQueue(num_blocks)
        self._contents: list[Name | None] = [None]
        """Contents of the blocks that were ever taken."""
        self._cached: dict[Name, int] = {}
        """The block of each content; of several, the one entered first."""
        self._copies: Copies[Name] = Copies()
        self._sharers: dict[int, int] = {}

    @property
    def free(self) -> int:
        """Number of blocks that can be taken."""
        return self._free.size if self.limited else UNLIMITED

    @property
    def used(self) -> int:
        """Blocks in use."""
        return self._num_blocks - 1 - self._free.size

    def find(self, names: list[Name], most: int) -> list[int]:
        """Return the blocks of the first contents, up to the first that is missing, or `most`."""
        return list(iter(map(self._cached.get, names[:most]).__next__, None))

    def idle(self, blocks: list[int]) -> list[int]:
        """Return the blocks with content that are not in use."""
        return self._free.among(blocks)

    def hold(self, blocks: list[int], idle: list[int]) -> None:
        """Add a user to each of the blocks, of which `idle` have none yet."""
        self._free.remove(idle)
        if len(idle) < len(blocks):
            sharers, alone = self._sharers, set(idle)
            for block in blocks:
                if block not in alone:
                    sharers[block] = sharers.get(block, 0) + 1

    def take(self, count: int) -> list[int]:
        """Take blocks for new content, and evict their old content."""
        if self.limited:
            taken = self._free.take(count)
            if taken and (first := len(self._contents)) <= (last := max(taken)):
                self._contents += [None] * (last + 1 - first)
            self._forget(taken)
            return taken
        taken = []
        while len(taken) < count and self._free.peek() != NULL_BLOCK:
            taken += self._free.take(1)
        grown = self._free.grow(count - len(taken))
        self._contents += [None] * len(grown)
        self._num_blocks += len(grown)
        return [*taken, *grown]

    def _forget(self, blocks: list[int]) -> None:
        contents, cached, copies = self._contents, self._cached, self._copies
        for block in blocks:
            name = contents[block]
            if name is None:
                continue
            contents[block] = None
            if name in copies:
                cached[name] = copies.drop(name, block)
            else:
                del cached[name]

    def enter(self, blocks: list[int], names: list[Name]) -> None:
        """Set the blocks' contents."""
        contents, cached = self._contents, self._cached
        for block, name in zip(blocks, names, strict=True):
            contents[block] = name
            oldest = cached.setdefault(name, block)
            if oldest != block:
                self._copies.add(name, oldest, block)

    def release(self, blocks: list[int], full: int) -> None:
        """Remove a user from each of the blocks, the tail first; the first `full` may be wanted again, the others are evicted
        next.

        In a pool that grows, full blocks without a name are evicted next, too: no request can ask for them.
        """
        sharers = self._sharers
        kept, rest = blocks[:full], blocks[full:]
        if sharers:
            kept = [block for block in kept if not self._shared(block)]
        kept.reverse()
        if not self.limited:
            contents = self._contents
            rest += [block for block in kept if contents[block] is None]
            kept = [block for block in kept if contents[block] is not None]
        self._free.append(kept)
        self._free.prepend(rest)

    def _shared(self, block: int) -> bool:
        """Remove one user, and return whether the block still has another."""
        others = self._sharers.get(block, 0)
        if others > 1:
            self._sharers[block] = others - 1
        elif others:
            del self._sharers[block]
        return others > 0

    def check(self) -> None:
        """Assert that contents, names and free blocks agree."""
        self._free.check()
        free = set(self._free)
        assert not self._sharers.keys() & free
        assert all(count > 0 for count in self._sharers.values())
        holders: dict[Name, set[int]] = {}
        for block, name in enumerate(self._contents):
            if name is not None:
                holders.setdefault(name, set()).add(block)
        assert self._cached.keys() == holders.keys()
        for name, blocks in holders.items():
            assert self._cached[name] == next(iter(self._copies.get(name, blocks)))
            assert set(self._copies.get(name, blocks)) == blocks
        assert NULL_BLOCK not in self._cached.values()
