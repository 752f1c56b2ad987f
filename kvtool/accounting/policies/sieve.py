"""SIEVE (Zhang et al., NSDI 2024): one queue, a mark for used blocks, and a hand that passes over marked ones."""

from __future__ import annotations


class Sieve:
    """New blocks enter at the head. The hand goes from the tail towards the head: a marked block loses its mark and stays."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._marked: dict[int, bool] = {}
        self._newer: dict[int, int] = {}
        """The next block towards the head, by block, and `_older` towards the tail; -1 beyond either end."""
        self._older: dict[int, int] = {}
        self._head = self._tail = self._hand = -1

    def __contains__(self, block: int) -> bool:
        return block in self._marked

    def access(self, block: int) -> None:
        marked = self._marked
        if block in marked:
            marked[block] = True
            return
        if len(marked) == self._capacity:
            self._evict()
        if self._capacity:
            self._push(block)

    def _push(self, block: int) -> None:
        self._marked[block] = False
        self._newer[block], self._older[block] = -1, self._head
        if self._head >= 0:
            self._newer[self._head] = block
        else:
            self._tail = block
        self._head = block

    def _evict(self) -> None:
        if not self._marked:
            return
        hand = self._hand if self._hand >= 0 else self._tail
        while self._marked[hand]:
            self._marked[hand] = False
            hand = self._newer[hand]
            if hand < 0:
                hand = self._tail
        newer, older = self._newer.pop(hand), self._older.pop(hand)
        del self._marked[hand]
        if newer >= 0:
            self._older[newer] = older
        else:
            self._head = older
        if older >= 0:
            self._newer[older] = newer
        else:
            self._tail = newer
        self._hand = newer
