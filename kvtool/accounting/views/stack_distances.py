"""Distances of reuse in an LRU list, all capacities at once (Mattson et al. 1970), exact or on a sample of blocks.

A request touches its last block first and its first block last, as `accounting.caches.block_lru` does, and blocks of one chain are
touched together. So the blocks that a request touched last stay together in the list: a run of its chain; later requests take its
head. The list therefore consists of runs, one for each request that still has any, and a request costs O(log n) steps for each run
that it takes from, for any number of blocks.

Above a bound on distinct blocks, only blocks whose hash is below a threshold are followed; the threshold falls as there are more
(Waldspurger et al., SHARDS, FAST 2015). The hash alone decides, so the sample of a chain is a chain and the above applies to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from kvtool.accounting.views.distance_counts import DistanceCounts
from kvtool.accounting.views.fenwick import Fenwick
from kvtool.engine.blocks.block_keys import BlockHash

MOST_BLOCKS = 65_536
"""Distinct blocks that are followed, a bound on memory; with fewer in all, distances are exact."""
_LEAST_ROOM = 64
"""Least size of the tree of sums between two renumberings."""


class StackDistances:
    """Take requests in order. Memory is bounded by `most` blocks and those of one request."""

    def __init__(self, most: int = MOST_BLOCKS) -> None:
        self._most = most
        self.level = 0
        """Blocks are followed at a sampling rate of 2^-level."""
        self.counts = DistanceCounts()
        """Repeated blocks by distance."""
        self._last: dict[BlockHash, int] = {}
        """The request that touched a block last, as its place among those that still have any."""
        self._live = [0] * _LEAST_ROOM
        """Blocks by the request that touched them last."""
        self._sums = Fenwick(self._live)
        self._next = 0

    def __len__(self) -> int:
        """Return blocks that are followed."""
        return len(self._last)

    def request(self, blocks: Sequence[BlockHash], asked: int) -> int | None:
        """Touch a chain of blocks, and look up the first `asked`.

        Return the distance of the last of these in the sample of the level so far; None if it is new or not in the sample.
        """
        final = blocks[asked - 1] if asked else None
        if self.level:
            threshold = self._threshold()
            head = [block for block in blocks[:asked] if block < threshold]
            blocks = [*head, *(block for block in blocks[asked:] if block < threshold)]
            final = final if head and head[-1] == final else None
            asked = len(head)
        if not blocks:
            return None
        distance = self._touch(blocks, asked)
        while len(self._last) > self._most:
            self._thin_out()
        return distance if final is not None else None

    def _touch(self, blocks: Sequence[BlockHash], asked: int) -> int | None:
        """Return the distance of block `asked` - 1; None if it is new."""
        if self._next == len(self._live):
            self._close_up()
        last, at, followed = self._last, 0, len(self._last)
        final: int | None = None
        taken: list[tuple[int, int]] = []
        for place, stretch in groupby(map(last.get, blocks)):
            if place is None:  # later ones are not known either
                break
            count = sum(1 for _ in stretch)
            distance = followed - self._sums.first(place + 1)
            counted = min(count, asked - at)
            if counted > 0:
                self.counts.add(self.level, distance, counted)
            if at < asked <= at + count:
                final = distance + asked - at - 1
            at += count
            taken.append((place, count))
        for place, count in taken:
            self._change(place, -count)
        self._change(self._next, len(blocks))
        last.update(dict.fromkeys(blocks, self._next))
        self._next += 1
        return final

    def _change(self, place: int, blocks: int) -> None:
        self._live[place] += blocks
        self._sums.add(place, blocks)

    def _close_up(self) -> None:
        """Renumber the requests that still have blocks."""
        kept = [place for place, blocks in enumerate(self._live) if blocks]
        self._renumber({place: at for at, place in enumerate(kept)})

    def _thin_out(self) -> None:
        """Follow half as many blocks."""
        self.level += 1
        threshold = self._threshold()
        self._last = {block: place for block, place in self._last.items() if block < threshold}
        self._renumber({place: at for at, place in enumerate(sorted(set(self._last.values())))})

    def _renumber(self, places: dict[int, int]) -> None:
        self._last = {block: places[place] for block, place in self._last.items()}
        blocks = Counter(self._last.values())
        room = max(len(self._last), _LEAST_ROOM)  # so many requests pay for the next renumbering
        self._live = [blocks[place] for place in range(len(places) + room)]
        self._sums = Fenwick(self._live)
        self._next = len(places)

    def _threshold(self) -> bytes:
        """Return the threshold. Hashes are compared as numbers of 128 bits, the first byte the most significant."""
        return (1 << 128 - self.level).to_bytes(16, "big")

    def check(self) -> None:
        """Assert the invariants."""
        blocks = Counter(self._last.values())
        assert all(blocks[place] == live for place, live in enumerate(self._live))
        assert all(self._sums.first(at) == sum(self._live[:at]) for at in (0, 1, self._next, len(self._live)))
        assert len(self._last) <= self._most
