"""Find the step in which reads grow: a cache of whole blocks gives no part of one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd

_FEWEST = 3
"""Least distinct numbers of tokens whose common divisor gives a step of any size; fewer share a small one by chance."""
_LEAST = 64
"""The least step that fewer numbers give: chance gives one in so many of them such a divisor."""


@dataclass(slots=True)
class ReadStep:
    """The step that reads have in common, as they come in. `numbers` are the first distinct ones."""

    size: int = 0
    numbers: set[int] = field(default_factory=set)

    def add(self, read: int) -> None:
        """Enter what a request read."""
        self.size = gcd(self.size, read)
        if read and len(self.numbers) < _FEWEST:
            self.numbers.add(read)

    @property
    def known(self) -> int | None:
        """The step; None where that is a token, or too few numbers show it. One number shows a power of two alone: it is a divisor
        of itself."""
        size = self.size & -self.size if len(self.numbers) == 1 else self.size
        return size if size > 1 and (len(self.numbers) >= _FEWEST or size >= _LEAST) else None


def step_of_reads(reads: Iterable[int]) -> int | None:
    """Return the step that all reported reads have in common; None where none is known."""
    step = ReadStep()
    for read in reads:
        step.add(read)
    return step.known
