"""The decoding requests of a replica: each step gives each of them a token, so most facts are kept for all at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from kvtool.engine.fleet.live_request import LiveRequest


class Decoders:
    """Decoding requests in the order of their admission. `step` counts the replica's steps; a request has computed `offset + step`
    tokens."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._members: dict[LiveRequest, None] = {}
        self._offsets = 0
        self._phases = [0] * block_size
        """Number of requests by `offset % block_size`."""
        self._ends: list[tuple[int, int, LiveRequest]] = []
        """(last step, order), those that have left included."""
        self._named: list[tuple[int, int, int, LiveRequest]] = []
        """(step that fills its next block with a name, order, number of the block)."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[LiveRequest]:
        return iter(self._members)

    def __contains__(self, live: object) -> bool:
        return live in self._members

    @property
    def latest(self) -> LiveRequest:
        """Return the one that was admitted last."""
        return next(reversed(self._members))

    def context(self, step: int) -> int:
        """Return the computed tokens of all requests after so many steps."""
        return self._offsets + step * len(self._members)

    def longest(self, count: int, step: int) -> list[int]:
        """Return the longest contexts after so many steps, at most `count`."""
        if not count:
            return []
        return [offset + step for offset in heapq.nlargest(count, [live.offset for live in self._members])]

    def add(self, live: LiveRequest, step: int) -> None:
        """Add a request that got a token in `step` and is to get more."""
        live.offset = live.computed - step
        live.last_step = step + live.target - live.outputs
        self._members[live] = None
        self._offsets += live.offset
        self._phases[live.offset % self._block_size] += 1
        heapq.heappush(self._ends, (live.last_step, live.order, live))
        self.expect_name(live, live.registered)

    def remove(self, live: LiveRequest) -> None:
        """Remove a request that has finished or is preempted."""
        del self._members[live]
        self._offsets -= live.offset
        self._phases[live.offset % self._block_size] -= 1

    def expect_name(self, live: LiveRequest, block: int) -> None:
        """Remember when a block becomes full, if its content will have a name."""
        if block < len(live.names):
            heapq.heappush(self._named, ((block + 1) * self._block_size - live.offset, live.order, block, live))

    def next_end(self) -> int:
        """Return the first step in which a request gets its last token."""
        ends = self._ends
        while ends[0][1] != ends[0][2].order:
            heapq.heappop(ends)
        return ends[0][0]

    def ending(self, step: int) -> list[LiveRequest]:
        """Return the requests that get their last token in this step, in order; the caller removes them."""
        found = []
        while self._ends and (self._ends[0][0] <= step or self._ends[0][1] != self._ends[0][2].order):
            _, order, live = heapq.heappop(self._ends)
            if order == live.order:
                found.append(live)
        return found

    def next_name(self) -> int | None:
        """Return the step that fills the next block with a name."""
        named = self._named
        while named and named[0][1] != named[0][3].order:
            heapq.heappop(named)
        return named[0][0] if named else None

    def named(self, step: int) -> Iterator[tuple[LiveRequest, int]]:
        """Return the blocks with a name that are full by this step, in the order in which they become so."""
        while (due := self.next_name()) is not None and due <= step:
            _, _, block, live = heapq.heappop(self._named)
            yield live, block
            self.expect_name(live, block + 1)

    def new_blocks(self, step: int, steps: int) -> int:
        """Return blocks that so many steps after `step` begin."""
        size, phases = self._block_size, self._phases
        rounds, rest = divmod(steps, size)
        count = rounds * len(self._members)
        if rest:
            last = -step % size  # the phase that begins a block in the first of the steps; then those before it
            first = last - rest + 1
            count += sum(phases[max(first, 0) : last + 1])
            if first < 0:
                count += sum(phases[first:])
        return count

    def begins_block(self, live: LiveRequest, step: int) -> bool:
        """Return whether the step after `step` needs a new block for the request."""
        return (live.offset + step) % self._block_size == 0

    def check(self, step: int) -> None:
        """Assert that sums and counts are those of the members."""
        assert self._offsets == sum(live.offset for live in self._members)
        for phase, count in enumerate(self._phases):
            assert count == sum(live.offset % self._block_size == phase for live in self._members)
        assert all(live.last_step >= step for live in self._members)
