"""The accounting of trace studies: blocks in one LRU list, whole requests at a time.

It differs from an engine: there is no pool that running requests pin, the last (partial) block of a request counts like the
others, all of a request's blocks may hit, and a request becomes resident at once. Reports name it `block-lru`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence


class BlockLru:
    """An LRU list over block ids, each with the time of its last use; a request touches its tail first and its head last, so that
    tails are evicted before heads."""

    def __init__(self, capacity: int | None) -> None:
        """Create the list with a `capacity` in blocks; None is unlimited."""
        self.capacity = capacity
        self.num_evictions = 0
        self._resident: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._resident)

    def request(self, blocks: Sequence[Hashable]) -> int:
        """Return the leading resident blocks of a request; then make all of its blocks resident."""
        hits = self.find(blocks)
        self.store(blocks)
        return hits

    def find(self, blocks: Sequence[Hashable], now: float = 0.0) -> int:
        """Return the leading resident blocks."""
        del now
        resident = self._resident
        hits = 0
        for block in blocks:
            if block not in resident:
                break
            hits += 1
        return hits

    def store(self, blocks: Sequence[Hashable], now: float = 0.0) -> None:
        """Make blocks resident and the most recently used; the least recently used go."""
        resident = self._resident
        for block in reversed(blocks):
            resident[block] = now
            resident.move_to_end(block)
        if self.capacity is not None:
            while len(resident) > self.capacity:
                resident.popitem(last=False)
                self.num_evictions += 1
