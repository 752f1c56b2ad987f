"""Time, passed in: the wall's for real runs, the latency model's for simulated ones."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from kvtool.engine.step import EngineStep


class Clock(Protocol):
    """Seconds since some beginning."""

    def now(self) -> float: ...

    def step_done(self, step: EngineStep) -> None:
        """Record an executed step; a virtual clock advances by the step's predicted time."""
        ...

    def wait_until(self, moment: float) -> None:
        """Wait: there is no work before `moment`."""
        ...


class WallClock:
    """Real time."""

    def now(self) -> float:
        return time.perf_counter()

    def step_done(self, step: EngineStep) -> None:
        del step  # a real step already took its time

    def wait_until(self, moment: float) -> None:
        time.sleep(max(moment - self.now(), 0.0))


class StepTimes(Protocol):
    """A latency model, as far as a clock needs it."""

    def step_seconds(self, work: Iterable[tuple[int, int]]) -> float:
        """Return seconds of a step that has, for each request, the tokens computed before and those computed now."""
        ...


class VirtualClock:
    """Time by a latency model; begins at 0."""

    def __init__(self, model: StepTimes) -> None:
        self.model = model
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def step_done(self, step: EngineStep) -> None:
        self._now += self.model.step_seconds((start, count) for _, start, count in step.scheduled)

    def wait_until(self, moment: float) -> None:
        self._now = max(self._now, moment)
