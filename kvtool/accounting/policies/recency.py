"""Policies that go by the order of use or of arrival alone: LRU and FIFO."""

from __future__ import annotations

from collections import OrderedDict


class Lru:
    """The block that was not used for longest goes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._resident: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._resident

    def access(self, block: int) -> None:
        resident = self._resident
        if block in resident:
            resident.move_to_end(block)
            return
        resident[block] = None
        if len(resident) > self._capacity:
            resident.popitem(last=False)


class Fifo:
    """Evict the block that was resident longest, for any number of uses."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._resident: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._resident

    def access(self, block: int) -> None:
        resident = self._resident
        if block not in resident:
            resident[block] = None
            if len(resident) > self._capacity:
                resident.popitem(last=False)
