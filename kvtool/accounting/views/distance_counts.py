"""Counts of each reuse distance, with later ones sampled more thinly than earlier ones."""

from __future__ import annotations

from array import array
from itertools import accumulate


class DistanceCounts:
    """Weights by distance. Level k was sampled at a rate of 2^-k: its counts represent 2^k times their weight and distance."""

    def __init__(self) -> None:
        self._changes: list[array[int]] = []
        """Differences of each distance's weight from that of the one before, by level."""
        self._sums: list[list[int]] | None = None

    def add(self, level: int, distance: int, count: int, weight: int = 1) -> None:
        """Add a weight to `count` distances in a row, in units of the level's samples."""
        while len(self._changes) <= level:
            self._changes.append(array("q"))
        changes = self._changes[level]
        missing = distance + count + 1 - len(changes)
        if missing > 0:
            changes.extend([0] * max(missing, len(changes)))
        changes[distance] += weight
        changes[distance + count] -= weight
        self._sums = None

    def below(self, distance: int) -> int:
        """Return the weight of all distances below this one."""
        total = 0
        for level, sums in enumerate(self._summed()):
            own = min(-(-distance >> level), len(sums))  # so many of its distances, scaled up, are below
            total += sums[own - 1] << level if own else 0
        return total

    @property
    def end(self) -> int:
        """The first distance beyond all that occurred; 0 where there are none."""
        ends = [0]
        for level, sums in enumerate(self._summed()):
            last = len(sums)
            while last > 1 and sums[last - 1] == sums[last - 2]:
                last -= 1
            if last and sums[last - 1]:
                ends.append(((last - 1) << level) + 1)
        return max(ends)

    def _summed(self) -> list[list[int]]:
        if self._sums is None:
            self._sums = [list(accumulate(accumulate(changes))) for changes in self._changes]
        return self._sums
