"""Requests per second of each replica, as a router counts them that hears nothing back."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from kvtool.engine.fleet.fleet_router import ReplicaView


class RequestRates:
    """Requests that each replica was sent within the last `window` seconds."""

    def __init__(self, window: float) -> None:
        self.window = window
        self._sent: dict[int, deque[float]] = defaultdict(deque)

    def sent(self, replica: int, now: float) -> None:
        """A request goes to a replica."""
        self._sent[replica].append(now)

    def lowest(self, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the first replica that never had a request, else the one with the fewest in the window, of equals the first."""
        fewest: tuple[int, int] | None = None
        for replica in replicas:
            if replica.number not in self._sent:
                return replica.number
            moments = self._sent[replica.number]
            while moments and moments[0] < now - self.window:
                moments.popleft()
            if fewest is None or len(moments) < fewest[0]:
                fewest = (len(moments), replica.number)
        assert fewest is not None
        return fewest[1]
