"""ARC (Megiddo and Modha, FAST 2003): blocks used once and blocks used again, and a balance that ghosts of either move."""

from __future__ import annotations

from collections import OrderedDict


class Arc:
    """`_once` and `_again` are LRU lists of resident blocks, `_left_once` and `_left_again` the names of evicted ones."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._target = 0.0
        """Blocks that `_once` should have."""
        self._once: OrderedDict[int, None] = OrderedDict()
        self._again: OrderedDict[int, None] = OrderedDict()
        self._left_once: OrderedDict[int, None] = OrderedDict()
        self._left_again: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._once or block in self._again

    def access(self, block: int) -> None:
        once, again = self._once, self._again
        if block in again:
            again.move_to_end(block)
        elif block in once:
            del once[block]
            again[block] = None
        elif not self._capacity:
            return
        elif block in self._left_once:
            ratio = len(self._left_again) / len(self._left_once)
            self._target = min(self._capacity, self._target + max(1.0, ratio))
            self._make_room(ghost_of_again=False)
            del self._left_once[block]
            again[block] = None
        elif block in self._left_again:
            ratio = len(self._left_once) / len(self._left_again)
            self._target = max(0.0, self._target - max(1.0, ratio))
            self._make_room(ghost_of_again=True)
            del self._left_again[block]
            again[block] = None
        else:
            self._miss()
            once[block] = None

    def _miss(self) -> None:
        """Make room for a block that no list contains."""
        first = len(self._once) + len(self._left_once)
        if first == self._capacity:
            if len(self._once) < self._capacity:
                self._left_once.popitem(last=False)
                self._make_room(ghost_of_again=False)
            else:
                self._once.popitem(last=False)
            return
        known = first + len(self._again) + len(self._left_again)
        if known >= self._capacity:
            if known == 2 * self._capacity:
                self._left_again.popitem(last=False)
            self._make_room(ghost_of_again=False)

    def _make_room(self, *, ghost_of_again: bool) -> None:
        """Evict a resident block and keep its name."""
        if len(self._once) + len(self._again) < self._capacity:
            return
        count = len(self._once)
        if count and (count > self._target or (ghost_of_again and count == self._target)):
            block, _ = self._once.popitem(last=False)
            self._left_once[block] = None
        else:
            block, _ = self._again.popitem(last=False)
            self._left_again[block] = None
