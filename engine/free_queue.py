"""The queue of free blocks: an intrusive doubly linked list over block ids, O(1) everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvtool.engine.errors import EngineError

NULL_BLOCK = 0


class FreeQueue:
    """Free block ids in the order in which they will be reused.

    ::

        0 (sentinel) <-> head <-> ... <-> tail <-> 0

    Block 0 is vLLM's null block: it is never free, so its slots in `next` and `prev` serve as the sentinel. A block that is not
    in the queue has `next` -1.
    """

    __slots__ = ("next", "prev", "size")

    def __init__(self, num_blocks: int) -> None:
        """A queue of 1 … num_blocks - 1, in that order."""
        if num_blocks < 1:
            raise EngineError(f"a pool has at least the null block, not {num_blocks} blocks")
        self.next: list[int] = [*range(1, num_blocks), 0]
        self.prev: list[int] = [num_blocks - 1, *range(num_blocks - 1)]
        self.size = num_blocks - 1

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        block = self.next[NULL_BLOCK]
        while block != NULL_BLOCK:
            yield block
            block = self.next[block]

    def grow(self) -> int:
        """Make room for one more block id, which is not queued, and return it."""
        self.next.append(-1)
        self.prev.append(-1)
        return len(self.next) - 1

    def pop(self) -> int:
        """Take the head."""
        block = self.next[NULL_BLOCK]
        assert block != NULL_BLOCK, "pop from an empty free queue"
        self.remove(block)
        return block

    def remove(self, block: int) -> None:
        """Unlink a queued block from wherever it stands."""
        after, before = self.next[block], self.prev[block]
        self.next[before] = after
        self.prev[after] = before
        self.next[block] = -1
        self.size -= 1

    def append(self, blocks: Iterable[int]) -> None:
        """Link blocks behind the tail, in the given order."""
        after, before = self.next, self.prev
        tail = before[NULL_BLOCK]
        for block in blocks:
            after[tail] = block
            before[block] = tail
            tail = block
            self.size += 1
        after[tail] = NULL_BLOCK
        before[NULL_BLOCK] = tail

    def prepend(self, blocks: Iterable[int]) -> None:
        """Link blocks before the head; the first given becomes the new head."""
        after, before = self.next, self.prev
        head = after[NULL_BLOCK]
        last = NULL_BLOCK
        for block in blocks:
            after[last] = block
            before[block] = last
            last = block
            self.size += 1
        after[last] = head
        before[head] = last

    def check(self) -> None:
        """Assert that the links agree in both directions and that nothing is lost."""
        seen = list(self)
        assert len(seen) == self.size == len(set(seen))
        assert all(self.next[self.prev[block]] == block for block in seen)
        assert all(self.prev[self.next[block]] == block for block in seen)
        assert sum(after >= 0 for after in self.next) == self.size + 1
