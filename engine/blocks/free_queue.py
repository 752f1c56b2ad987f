"""The queue of free blocks, in runs: blocks that are freed together are queued, found and taken again by slices."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.engine.engine_error import EngineError

NULL_BLOCK = 0
_SLACK = 1024
"""Entries that the line may have beyond four times its blocks before it is tidied up, so that small pools do it rarely."""


class FreeQueue:
    """Free block ids in the order in which they will be reused.

    ::

        _front reversed, then _new, then _line[_head:] without its holes

    `_front` is a stack of the blocks that were put before the head. Nothing is kept of `_new`, which were never used: a pool costs
    only its used blocks. `_line` is a log: taking moves `_head`, a block that is removed from the middle leaves a hole (block 0,
    vLLM's null block, which is never free), and `_place` has the index of a block's latest entry. A block is in the line where
    that entry is at or after `_head` and still names it. Everything is O(1) for a block, amortized; the line is tidied up when it
    is several times as long as the used part of the pool.
    """

    __slots__ = ("_front", "_head", "_line", "_new", "_place", "size")

    def __init__(self, num_blocks: int) -> None:
        """Create a queue of 1 … num_blocks - 1, in that order."""
        if num_blocks < 1:
            raise EngineError(f"a pool needs at least the null block, not {num_blocks} blocks")
        self._front: list[int] = []
        self._new = range(1, num_blocks)
        self._line: list[int] = []
        self._head = 0
        self._place = [-1]
        self.size = num_blocks - 1

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        yield from reversed(self._front)
        yield from self._new
        yield from filter(None, self._line[self._head :])

    def grow(self, count: int) -> range:
        """Make room for more block ids, which are not queued, and return them."""
        first = max(len(self._place), self._new.stop)
        self._place += [-1] * (first + count - len(self._place))
        return range(first, first + count)

    def peek(self) -> int:
        """Return the head; the null block where the queue is empty."""
        if self._front:
            return self._front[-1]
        if self._new:
            return self._new[0]
        line = self._line
        while self._head < len(line) and line[self._head] == NULL_BLOCK:
            self._head += 1
        return line[self._head] if self._head < len(line) else NULL_BLOCK

    def take(self, count: int) -> list[int]:
        """Take `count` blocks from the head."""
        assert count <= self.size, "take from an empty free queue"
        front = self._front
        taken: list[int] = []
        if front and count:
            taken = front[: -count - 1 : -1]
            del front[-count:]
        if self._new and len(taken) < count:
            taken += self._take_new(count - len(taken))
        while (missing := count - len(taken)) > 0:
            stop = self._head + missing
            taken += filter(None, self._line[self._head : stop])
            self._head = stop
        self.size -= count
        return taken

    def _take_new(self, count: int) -> range:
        taken, self._new = self._new[:count], self._new[count:]
        self._place += [-1] * (taken.stop - len(self._place))
        return taken

    def among(self, blocks: list[int]) -> list[int]:
        """Return the used blocks that are in the line, as every free block with cached content is."""
        if not blocks or (len(blocks) > 1 and self._freed_together(blocks)):
            return blocks
        line, place, head = self._line, self._place, self._head
        return [block for block in blocks if (at := place[block]) >= head and line[at] == block]

    def _freed_together(self, blocks: list[int]) -> bool:
        """Return whether the blocks are consecutive in the line, tail first: a prefix that one request freed."""
        first = self._place[blocks[-1]]
        return first >= self._head and self._line[first : first + len(blocks)] == blocks[::-1]

    def remove(self, blocks: list[int]) -> None:
        """Remove blocks, all of them in the line, from any place."""
        if not blocks:
            return
        line, place = self._line, self._place
        if len(blocks) > 1 and self._freed_together(blocks):
            first = place[blocks[-1]]
            line[first : first + len(blocks)] = [NULL_BLOCK] * len(blocks)
        else:
            for block in blocks:
                line[place[block]] = NULL_BLOCK
        self.size -= len(blocks)

    def append(self, blocks: list[int]) -> None:
        """Append blocks after the tail, in the given order."""
        line, place = self._line, self._place
        if len(line) > 4 * len(place) + _SLACK:
            self._tidy()
            line, place = self._line, self._place
        for at, block in enumerate(blocks, len(line)):
            place[block] = at
        line += blocks
        self.size += len(blocks)

    def prepend(self, blocks: list[int]) -> None:
        """Put blocks before the head; the last given becomes the new head. They can only be taken, not removed."""
        self._front += blocks
        self.size += len(blocks)

    def _tidy(self) -> None:
        self._line = list(filter(None, self._line[self._head :]))
        self._head = 0
        self._place = [-1] * len(self._place)
        for at, block in enumerate(self._line):
            self._place[block] = at

    def check(self) -> None:
        """Assert that every queued block is queued once, at its recorded place."""
        queued = list(self)
        assert len(queued) == self.size == len(set(queued))
        assert all(0 < block < len(self._place) or block in self._new for block in queued)
        in_line = [block for block in self._line[self._head :] if block]
        assert self.among(in_line) == in_line
        assert not any(self.among([block]) for block in self._front)
