"""What keys of objects cost: those whose hashes a template can make equal are compared with each other."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.text.templates.work import Work

_FREE_HASH = 2**61 - 1
"""Python's hash of a whole number is its remainder of this."""


class KeyPrices:
    """Pays for keys, one after the other, that go into one object or set."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._alike = 0

    def add(self, key: object) -> None:
        """Pay for one more key."""
        self._work.plain(key)
        if isinstance(key, str) or (isinstance(key, int) and -_FREE_HASH < key < _FREE_HASH):
            return
        self._alike += 1
        self._work.spend(self._alike >> 1)


def price_keys(work: Work, keys: Iterable[object]) -> list[object]:
    """Pay for an object of these keys; gives them as a list."""
    prices = KeyPrices(work)
    found: list[object] = []
    for key in work.items(keys, 10):
        prices.add(key)
        found.append(key)
    return found
