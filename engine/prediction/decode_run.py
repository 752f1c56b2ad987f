"""Many decode steps of the same requests at once: their times in closed form instead of one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt


@dataclass(frozen=True, slots=True)
class DecodeRun:
    """Steps in which the same requests get a token each: a step takes `growth` longer than the one before."""

    first: float
    """Seconds of the first step."""
    growth: float

    def seconds(self, steps: int) -> float:
        """Of so many steps, from the first on."""
        return steps * self.first + self.growth * (steps * (steps - 1) / 2)

    def begun_before(self, moment: float, most: int) -> int:
        """How many of `most` steps begin less than `moment` seconds after the first one; 0 where not even that does."""
        if moment <= 0:
            return 0
        half = self.growth / 2
        linear = self.first - half
        found = 2 * moment / (linear + sqrt(linear * linear + 4 * half * moment)) if half else moment / self.first
        steps = most if found >= most else max(ceil(found), 1)
        while steps > 1 and self.seconds(steps - 1) >= moment:
            steps -= 1
        while steps < most and self.seconds(steps) < moment:
            steps += 1
        return steps
