"""A link that the transfers in flight share evenly, on a virtual clock."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from kvtool.engine.engine_error import EngineError


class SharedLink:
    """Move bytes for many transfers at a time: n of them get an n-th of the bandwidth each (processor sharing).

    A transfer takes no part for its first `latency` seconds. All active transfers get the same bytes in any interval, so one count
    is enough: a transfer is done when the count has risen by its bytes. Queries, starts and ends cost O(log n).

    The owner calls `advance(now)` with moments that never fall, at the latest at each `next_event()`.
    """

    __slots__ = ("_coming", "_moved", "_now", "_sharing", "bandwidth", "latency", "num_bytes")

    def __init__(self, bandwidth: float, latency: float = 0.0) -> None:
        """Create the link: bytes per second, which may be `inf`, and seconds; EngineError for a link that moves nothing."""
        if not bandwidth > 0:
            raise EngineError(f"the bandwidth of a link must be above {bandwidth:g} bytes per second")
        if not 0 <= latency < inf:
            raise EngineError(f"the latency of a link cannot be {latency:g} seconds")
        self.bandwidth = bandwidth
        self.latency = latency
        self.num_bytes = 0.0
        """Bytes of all started transfers."""
        self._now = 0.0
        self._moved = 0.0
        """Bytes that each transfer got that shares since the link was idle."""
        self._sharing: list[tuple[float, int]] = []
        """Heap: the count at which a transfer is done, and its number."""
        self._coming: list[tuple[float, int, float]] = []
        """Heap: when a transfer begins to share, its number and bytes."""

    def __len__(self) -> int:
        """Return transfers in flight."""
        return len(self._sharing) + len(self._coming)

    def start(self, number: int, num_bytes: float, now: float) -> None:
        """Begin a transfer, named by a number of the owner's that no other one in flight has."""
        assert now >= self._now, "the clock of a link never falls"
        assert num_bytes >= 0
        self.num_bytes += num_bytes
        heappush(self._coming, (now + self.latency, number, num_bytes))

    def next_event(self) -> float:
        """Return the next moment when a transfer begins to share or is done, if none is started before; `inf` without transfers."""
        joins = self._coming[0][0] if self._coming else inf
        return min(joins, self._next_end())

    def _next_end(self) -> float:
        if not self._sharing:
            return inf
        return self._now + (self._sharing[0][0] - self._moved) * len(self._sharing) / self.bandwidth

    def advance(self, now: float) -> list[tuple[float, int]]:
        """Let time pass; the transfers that are done by then, as moments and numbers in the order in which they end."""
        done: list[tuple[float, int]] = []
        while len(self) and (moment := self.next_event()) <= now:
            if moment == self._next_end():  # a transfer that ends makes room for one at the same moment
                self._now = max(self._now, moment)
                self._moved, number = heappop(self._sharing)
                done.append((moment, number))
            else:
                self._pass(moment)
                _, number, num_bytes = heappop(self._coming)
                heappush(self._sharing, (self._moved + num_bytes, number))
            if not self._sharing:
                self._moved = 0.0  # small counts are exact counts
        self._pass(now)
        return done

    def _pass(self, now: float) -> None:
        if self._sharing and now > self._now:
            self._moved += (now - self._now) * self.bandwidth / len(self._sharing)
        self._now = max(self._now, now)

    def seconds(self, num_bytes: float) -> float:
        """Return the time of a transfer started now if no other follows; an upper bound where some wait for their latency."""
        shared = sum(min(end - self._moved, num_bytes) for end, _ in self._sharing)
        shared += sum(min(coming, num_bytes) for _, _, coming in self._coming)
        return self.latency + (num_bytes + shared) / self.bandwidth

    def left(self) -> float:
        """Return bytes that are still to be moved."""
        return sum(end - self._moved for end, _ in self._sharing) + sum(coming for _, _, coming in self._coming)
