"""S3-FIFO (Yang et al., SOSP 2023): a small queue on trial, a main queue, and a ghost queue of names that left the small one."""

from __future__ import annotations

from collections import OrderedDict

SMALL = 0.1
"""Part of the capacity on trial (10 % in the paper); the ghost queue contains as many names as the rest."""
_PROVEN = 2
"""Uses in the small queue after which a block moves to the main one."""
_MOST_USES = 3
"""Uses of a block are counted up to this: two bits, as in the paper."""


class S3Fifo:
    """Put a new block into the small queue, or into the main one if its name is among the ghosts.

    Until the first eviction, blocks without room in the small queue enter the main one, too.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._small_size = int(capacity * SMALL)
        self._ghost_size = int(capacity * (1 - SMALL))
        self._main_size = capacity - self._small_size
        self._small: OrderedDict[int, int] = OrderedDict()
        """Uses since a block entered the queue; the oldest first."""
        self._main: OrderedDict[int, int] = OrderedDict()
        self._ghosts: OrderedDict[int, None] = OrderedDict()
        self._evicts = False

    def __contains__(self, block: int) -> bool:
        return block in self._small or block in self._main

    def access(self, block: int) -> None:
        for queue in (self._small, self._main):
            if block in queue:
                queue[block] += 1
                return
        if not self._capacity:
            return
        known = block in self._ghosts
        if known:
            del self._ghosts[block]
        while len(self._small) + len(self._main) >= self._capacity:
            self._evicts = True
            self._evict()
        spills = not self._evicts and len(self._small) >= self._small_size
        (self._main if known or spills else self._small)[block] = 0

    def _evict(self) -> None:
        if len(self._main) > self._main_size or not self._small:
            self._evict_main()
        else:
            self._evict_small()

    def _evict_small(self) -> None:
        """Evict the oldest unproven block and keep its name among the ghosts; proven ones move on."""
        while self._small:
            block, uses = self._small.popitem(last=False)
            if uses < _PROVEN:
                self._ghosts[block] = None
                if len(self._ghosts) > self._ghost_size:
                    self._ghosts.popitem(last=False)
                return
            self._main[block] = 0

    def _evict_main(self) -> None:
        """Evict the oldest block that was not used since its last pass; used blocks pass again."""
        while self._main:
            block, uses = self._main.popitem(last=False)
            if not uses:
                return
            self._main[block] = min(uses, _MOST_USES) - 1
