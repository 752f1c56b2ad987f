"""Losses of a server over its last minutes, and since kvtool attached."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

from kvtool.measure.servers.causes.event_losses import EventLosses, Loss, LossSums
from kvtool.measure.servers.kv_events.event_batches import EventBatch


class WindowedLosses:
    """Takes batches in; a reading says what was lost since the reading that is as old as the window."""

    def __init__(self, window: float) -> None:
        """`window` is in seconds."""
        self._losses = EventLosses()
        self._window = window
        self._readings: deque[tuple[float, Counter[Loss]]] = deque()

    def add(self, batch: EventBatch) -> None:
        """Take a batch in."""
        self._losses.add(0, batch)

    def begin_span(self) -> None:
        """Count from now on; what came before only shows what the cache holds."""
        self._losses.begin_span()

    @property
    def total(self) -> LossSums:
        """Return the losses since kvtool attached."""
        return self._losses.sums()

    def read(self, at: float) -> LossSums:
        """Return the losses of the window that ends now, at a time in seconds that never falls."""
        sums = self._losses.sums()
        self._readings.append((at, sums.tokens))
        while len(self._readings) > 2 and at - self._readings[1][0] >= self._window:
            self._readings.popleft()
        before = self._readings[0][1] if len(self._readings) > 1 else Counter[Loss]()
        return replace(sums, tokens=sums.tokens - before)
