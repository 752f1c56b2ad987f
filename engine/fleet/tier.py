"""Blocks that a replica keeps below its GPU: in host memory, and on disk after eviction from there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

TierLevel = Literal["host", "disk"]
TierWrites = Literal["store", "eviction"]
"""The moment of a write below: when the block is computed, which keeps it twice, or when the GPU evicts it."""


class Tier:
    """Blocks by number, of which the one that was not used for longest goes."""

    __slots__ = ("_blocks", "capacity")

    def __init__(self, capacity: int) -> None:
        assert capacity >= 0
        self.capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, block: int) -> bool:
        return block in self._blocks

    def put(self, block: int) -> int | None:
        """Make a block the latest used one, whether it was there or not; the one that goes for it."""
        blocks = self._blocks
        if block in blocks:
            blocks.move_to_end(block)
            return None
        if not self.capacity:
            return block
        blocks[block] = None
        return blocks.popitem(last=False)[0] if len(blocks) > self.capacity else None

    def take(self, block: int) -> bool:
        """Forget a block; whether it was there."""
        if block not in self._blocks:
            return False
        del self._blocks[block]
        return True

    def __iter__(self) -> Iterator[int]:
        """Iterate from the next victim to the latest used."""
        return iter(self._blocks)


@dataclass(frozen=True, slots=True)
class TierRun:
    """Blocks `first` to `stop` of a request, which lie in one tier side by side."""

    level: TierLevel
    first: int
    stop: int

    @property
    def blocks(self) -> int:
        return self.stop - self.first


class TierStack:
    """Host memory and disk of a replica, one list in order of use: evictions from the first go to the second.

    With `writes` = "store", a block that is computed, hit or loaded becomes the latest used below as well as above: the stack is
    the LRU cache that it would be without a GPU, and contains the GPU's blocks if it is not smaller. With "eviction" it contains
    the GPU's evictions, and removes loaded blocks: GPU and stack are then one LRU cache of both sizes. Writing takes no time.
    """

    __slots__ = ("_disk", "_host", "num_dropped", "writes")

    def __init__(self, host: int, disk: int = 0, *, writes: TierWrites = "store") -> None:
        """Create the stack with so many blocks on each level; 0: no such level."""
        self._host = Tier(host)
        self._disk = Tier(disk)
        self.writes = writes
        self.num_dropped = 0
        """Blocks that fell out of the last level."""

    def __len__(self) -> int:
        return len(self._host) + len(self._disk)

    def runs(self, blocks: Sequence[int], first: int, stop: int) -> list[TierRun]:
        """Return the levels of `blocks[first:stop]` as runs, up to the first block that is on none."""
        found: list[TierRun] = []
        at = first
        while at < stop:
            level: TierLevel
            if blocks[at] in self._host:
                level, tier = "host", self._host
            elif blocks[at] in self._disk:
                level, tier = "disk", self._disk
            else:
                break
            begin = at
            while at < stop and blocks[at] in tier:
                at += 1
            found.append(TierRun(level, begin, at))
        return found

    def used(self, blocks: Sequence[int]) -> None:
        """Record the end of a request with these blocks, its first ones: the last becomes the latest used first."""
        if self.writes == "store":
            for block in reversed(blocks):
                self._put(block)

    def evicted(self, block: int) -> None:
        """Record an eviction of the GPU."""
        if self.writes == "eviction":
            self._put(block)

    def loaded(self, blocks: Iterable[int]) -> None:
        """Record that the GPU has these again, from here or computed anew."""
        if self.writes == "eviction":
            for block in blocks:
                _ = self._host.take(block) or self._disk.take(block)

    def _put(self, block: int) -> None:
        self._disk.take(block)
        dropped = self._host.put(block)
        if dropped is not None:
            dropped = self._disk.put(dropped)
            self.num_dropped += dropped is not None

    def check(self) -> None:
        """Assert that no block lies in both levels, and none in more room than there is."""
        assert len(self._host) <= self._host.capacity
        assert len(self._disk) <= self._disk.capacity
        assert not any(block in self._disk for block in self._host)
