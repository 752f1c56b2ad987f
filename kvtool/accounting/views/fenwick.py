"""Sums of the first places of a row with changing values (Fenwick 1994: a binary indexed tree)."""

from __future__ import annotations

from collections.abc import Sequence


class Fenwick:
    """A row of whole numbers; changing one and summing the first n take O(log n) steps."""

    def __init__(self, values: Sequence[int]) -> None:
        self._tree = [0, *values]
        for at in range(1, len(self._tree)):
            above = at + (at & -at)
            if above < len(self._tree):
                self._tree[above] += self._tree[at]

    def add(self, place: int, value: int) -> None:
        """Add to the value at a place."""
        tree = self._tree
        at = place + 1
        while at < len(tree):
            tree[at] += value
            at += at & -at

    def first(self, count: int) -> int:
        """Return the sum of the first `count` values."""
        tree = self._tree
        total = 0
        while count:
            total += tree[count]
            count &= count - 1
        return total
