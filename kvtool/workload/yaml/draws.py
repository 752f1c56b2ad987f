"""Random choices that depend only on a seed and on what is chosen, never on the order in which somebody asks."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

Key = str | int


def bits(size: int, *key: Key) -> bytes:
    """`size` (at most 64) pseudo-random bytes that belong to `key`."""
    return hashlib.blake2b(_encoded(key), digest_size=size).digest()


def stream(size: int, *key: Key) -> bytes:
    """Any number of pseudo-random bytes that belong to `key`."""
    return hashlib.shake_128(_encoded(key)).digest(size)


def below(bound: int, *key: Key) -> int:
    """A whole number from 0 to `bound` - 1."""
    return int.from_bytes(bits(8, *key)) * bound >> 64


def fraction(*key: Key) -> float:
    """A number from 0 to just under 1."""
    return (int.from_bytes(bits(8, *key)) >> 11) / 2**53


class Weighted:
    """Picks an index with a probability proportional to its weight."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._sums = list(accumulate(weights))

    def index(self, *key: Key) -> int:
        return min(bisect_right(self._sums, fraction(*key) * self._sums[-1]), len(self._sums) - 1)


def zipf(count: int, exponent: float) -> Weighted:
    """The k-th of `count` entries weighs k to the power of -`exponent`."""
    return Weighted([(rank + 1) ** -exponent for rank in range(count)])


def _encoded(key: tuple[Key, ...]) -> bytes:
    return "\x1f".join(map(str, key)).encode("utf-8", "surrogatepass")
