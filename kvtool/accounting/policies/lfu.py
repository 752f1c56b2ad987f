"""LFU: the block that was used least often goes."""

from __future__ import annotations

from collections import OrderedDict


class Lfu:
    """Uses are counted from when a block became resident; of equally often used ones, the one that reached the count first is
    evicted."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._uses: dict[int, int] = {}
        self._by_uses: dict[int, OrderedDict[int, None]] = {}
        self._least = 1

    def __contains__(self, block: int) -> bool:
        return block in self._uses

    def access(self, block: int) -> None:
        uses = self._uses.get(block)
        if uses is not None:
            self._leave(block, uses)
            self._enter(block, uses + 1)
            return
        if len(self._uses) == self._capacity:
            self._evict()
        if self._capacity:
            self._enter(block, 1)
            self._least = 1

    def _enter(self, block: int, uses: int) -> None:
        self._uses[block] = uses
        self._by_uses.setdefault(uses, OrderedDict())[block] = None

    def _leave(self, block: int, uses: int) -> None:
        equals = self._by_uses[uses]
        del equals[block]
        if not equals:
            del self._by_uses[uses]
            if uses == self._least:
                self._least = uses + 1

    def _evict(self) -> None:
        if not self._uses:
            return
        while self._least not in self._by_uses:
            self._least += 1
        block = next(iter(self._by_uses[self._least]))
        self._leave(block, self._least)
        del self._uses[block]
