"""The free blocks of a pool that never runs out, where their order is of no account: a byte for each block."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.engine.blocks.free_queue import NULL_BLOCK


class FreeSet:
    """Replace a `FreeQueue` if blocks with content are never taken: blocks after the tail stay for good.

    Blocks before the head are a stack, as there, and only they can be taken.
    """

    __slots__ = ("_free", "_front", "size")

    def __init__(self) -> None:
        self._free = bytearray(1)
        """True for blocks after the tail."""
        self._front: list[int] = []
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        yield from reversed(self._front)
        yield from (block for block, free in enumerate(self._free) if free)

    def grow(self, count: int) -> range:
        """Make room for more block ids, which are not free, and return them."""
        first = len(self._free)
        self._free.extend(bytes(count))
        return range(first, first + count)

    def peek(self) -> int:
        """Return the next block to take; the null block if there is none."""
        return self._front[-1] if self._front else NULL_BLOCK

    def take(self, count: int) -> list[int]:
        """Take `count` blocks from the front."""
        assert count <= len(self._front), "take of what is kept for good"
        taken = self._front[: -count - 1 : -1] if count else []
        del self._front[len(self._front) - count :]
        self.size -= count
        return taken

    def among(self, blocks: list[int]) -> list[int]:
        """Return the blocks that are after the tail, as every free block with cached content is."""
        free = self._free
        return blocks if all(map(free.__getitem__, blocks)) else [block for block in blocks if free[block]]

    def remove(self, blocks: list[int]) -> None:
        """Remove blocks, all of them `among` it."""
        free = self._free
        for block in blocks:
            free[block] = 0
        self.size -= len(blocks)

    def append(self, blocks: list[int]) -> None:
        """Put blocks after the tail."""
        free = self._free
        for block in blocks:
            free[block] = 1
        self.size += len(blocks)

    def prepend(self, blocks: list[int]) -> None:
        """Put blocks before the head; the last given becomes the new head. They can only be taken, not removed."""
        self._front += blocks
        self.size += len(blocks)

    def check(self) -> None:
        """Assert that every free block is free once."""
        free = list(self)
        assert len(free) == self.size == len(set(free))
        assert NULL_BLOCK not in free
