"""Hits of an LRU cache of any capacity, all capacities in one pass (Mattson et al. 1970).

A request touches its last block first and its first block last, as vLLM frees them. So the blocks that one request touched last
stay together in the list, as a run of its chain; later requests take its head. Along a chain the time of the last touch never
rises, and a request costs some steps for each run, for any number of blocks.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.accounting.views.fenwick import Fenwick
from kvtool.workload.block_trace import Numbers, RequestedBlocks


@dataclass(frozen=True, slots=True)
class CapacityCurve:
    """`hits[c]` blocks hit in a cache of c blocks, the last value in any larger one. `weight` is the weight of one reference."""

    hits: npt.NDArray[np.float64]
    references: float

    def at(self, capacity: int) -> float:
        """Return blocks that a cache of so many blocks hits."""
        return float(self.hits[min(max(capacity, 0), len(self.hits) - 1)])

    @property
    def unlimited(self) -> float:
        return float(self.hits[-1])

    def rate(self, capacity: int) -> float:
        """Return part of the references that hit."""
        return self.at(capacity) / self.references if self.references else 0.0


def capacity_curve(blocks: RequestedBlocks) -> CapacityCurve:
    """Return the curve of all requests, exact."""
    distances, counts = stretches(blocks)
    end = int((distances + counts).max(initial=0))
    steps = np.zeros(end + 2, dtype=np.int64)
    np.add.at(steps, distances + 1, 1)  # distance d hits in d + 1 blocks
    np.subtract.at(steps, distances + counts + 1, 1)
    # After one sum the uses of each distance, after two those of all smaller ones.
    hits = np.cumsum(np.cumsum(steps[:-1]))
    return CapacityCurve(hits.astype(np.float64), float(blocks.references))


def stretches(blocks: RequestedBlocks) -> tuple[Numbers, Numbers]:
    """Return uses of blocks that were used before: runs of consecutive distances, each by its first and its length."""
    requests = len(blocks.asked)
    live = Fenwick([0] * requests)
    add, first = live.add, live.first
    last = np.full(int(blocks.numbers.max(initial=-1)) + 1, -1, dtype=np.int32)
    distances, counts = array("q"), array("q")
    resident = 0
    numbers = blocks.numbers
    starts = blocks.starts.tolist()
    for request, asked in enumerate(blocks.asked.tolist()):
        start, stop = starts[request], starts[request + 1]
        chain = numbers[start:stop]
        if start == stop:
            continue
        at = 0
        taken: list[tuple[int, int]] = []
        if last[chain[0]] >= 0:
            places = last[chain]
            for end in (*(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), stop - start):
                place = int(places[at])
                if place < 0:
                    break
                if at < asked:
                    distances.append(resident - first(place + 1))
                    counts.append(min(end, asked) - at)
                taken.append((place, at - end))
                at = end
        last[chain] = request
        for place, count in taken:
            add(place, count)
        add(request, stop - start)
        resident += stop - start - at
    if not distances:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.frombuffer(distances, dtype=np.int64), np.frombuffer(counts, dtype=np.int64)
