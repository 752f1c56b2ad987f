"""Memory below the GPU of a replica: blocks in host memory, and on disk what falls out of there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

TierLevel = Literal["host", "disk"]
TierWrites = Literal["store", "eviction"]
"""When a block is written below: once it is computed, and then it is there twice, or once the GPU evicts it."""


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
        """From the one that goes next to the latest used."""
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
    """Host memory and disk of a replica, one list in order of use: what falls out of the first goes to the second.

    With `writes` = "store" a block that is computed, hit or loaded is the latest used below as well as above: the stack is the LRU
    cache that it would be without a GPU, and holds what the GPU holds if it is not smaller. With "eviction" it has what the GPU had
    no room for, and gives back what is loaded: GPU and stack are then one LRU cache of both sizes. Writing takes no time.
    """

    __slots__ = ("_disk", "_host", "num_dropped", "num_written", "writes")

    def __init__(self, host: int, disk: int = 0, *, writes: TierWrites = "store") -> None:
        """Blocks that fit on each level; 0: there is none."""
        self._host = Tier(host)
        self._disk = Tier(disk)
        self.writes = writes
        self.num_written = 0
        self.num_dropped = 0
        """Blocks that fell out of the last level."""

    def __len__(self) -> int:
        return len(self._host) + len(self._disk)

    def runs(self, blocks: Sequence[int], first: int, stop: int) -> list[TierRun]:
        """Where `blocks[first:stop]` lie, up to the first that lies nowhere."""
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
        """A request is done with these blocks, its first ones: the last becomes the latest used first."""
        if self.writes == "store":
            for block in reversed(blocks):
                self._put(block)

    def evicted(self, block: int) -> None:
        """The GPU gives up what it holds."""
        if self.writes == "eviction":
            self._put(block)

    def loaded(self, blocks: Iterable[int]) -> None:
        """The GPU holds these again, from here or computed anew."""
        if self.writes == "eviction":
            for block in blocks:
                _ = self._host.take(block) or self._disk.take(block)

    def _put(self, block: int) -> None:
        self.num_written += block not in self._host
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
