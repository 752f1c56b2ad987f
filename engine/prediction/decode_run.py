"""Many decode steps of the same requests at once: their times in closed form instead of one after the other."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, log1p, sqrt

_LARGE = 20.0
"""The series is exact to twelve digits from here on."""


@dataclass(frozen=True, slots=True)
class DecodeRun:
    """Steps in which the same requests get a token each, the j-th after the first in

    ``first + j · growth + bend · (1 / at - 1 / (at + j))`` seconds.
    """

    first: float
    growth: float
    bend: float = 0.0
    at: float = 1.0
    """At least 1."""

    def seconds(self, steps: int) -> float:
        """Return the seconds of so many steps, from the first on."""
        seconds = steps * self.first + self.growth * (steps * (steps - 1) / 2)
        if self.bend:
            seconds += self.bend * (steps / self.at - _reciprocals(self.at, steps))
        return seconds

    def begun_before(self, moment: float, most: int) -> int:
        """Return how many of `most` steps begin less than `moment` seconds after the first one; 0 if none does."""
        if moment <= 0:
            return 0
        half = self.growth / 2
        linear = self.first - half
        found = 2 * moment / (linear + sqrt(linear * linear + 4 * half * moment)) if half else moment / self.first
        steps = most if found >= most else max(ceil(found), 1)
        if self.bend:  # so far without it, and so not too few
            steps = 1 + bisect_left(range(1, steps), moment, key=self.seconds)
        while steps > 1 and self.seconds(steps - 1) >= moment:
            steps -= 1
        while steps < most and self.seconds(steps) < moment:
            steps += 1
        return steps


def _reciprocals(at: float, count: int) -> float:
    """Return 1 / at + 1 / (at + 1) + …, so many terms: the difference of two digammas by their asymptotic series (DLMF 5.11.2)."""
    total = 0.0
    while at < _LARGE and count:
        total, at, count = total + 1 / at, at + 1, count - 1
    if not count:
        return total
    end = at + count
    return total + log1p(count / at) + (_tail(at) - _tail(end))


def _tail(at: float) -> float:
    square = 1 / (at * at)
    return 0.5 / at + square * (1 / 12 - square * (1 / 120 - square / 252))
