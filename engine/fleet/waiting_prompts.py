"""The waiting requests of a replica, first come first served, and their work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kvtool.engine.fleet.live_request import LiveRequest
from kvtool.engine.prediction.latency import PrefillTimes


class WaitingPrompts:
    """`tokens` are to be computed, as far as known; in `seconds`, if each prompt runs alone."""

    def __init__(self, times: PrefillTimes) -> None:
        self._times = times
        self._queue: deque[LiveRequest] = deque()
        self._seconds: float | None = None
        """None: not summed, because no router needs it."""
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[LiveRequest]:
        return iter(self._queue)

    @property
    def head(self) -> LiveRequest:
        return self._queue[0]

    def add(self, live: LiveRequest, *, front: bool = False) -> None:
        if front:
            self._queue.appendleft(live)
        else:
            self._queue.append(live)
        self.tokens += live.expected
        if self._seconds is not None:
            self._expect(live)

    def pop(self) -> LiveRequest:
        live = self._queue.popleft()
        self.tokens -= live.expected
        if self._seconds is not None:
            self._seconds = self._seconds - live.prefill_seconds if self._queue else 0.0
        return live

    def seconds(self) -> float:
        """Return the time of their prompts one after the other."""
        if self._seconds is None:
            self._seconds = 0.0
            for live in self._queue:
                self._expect(live)
        return self._seconds

    def _expect(self, live: LiveRequest) -> None:
        live.prefill_seconds = self._times.seconds(live.tokens, live.tokens - live.expected)
        assert self._seconds is not None
        self._seconds += live.prefill_seconds
