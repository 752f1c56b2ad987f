"""Lists compared as multisets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def parted(keys: Sequence[Key], both: Counter[Key]) -> tuple[list[int], list[int]]:
    """The places of keys that are in `both`, each as often as there, and those of the others."""
    left = Counter(both)
    kept: list[int] = []
    others: list[int] = []
    for at, key in enumerate(keys):
        if left[key] > 0:
            left[key] -= 1
            kept.append(at)
        else:
            others.append(at)
    return kept, others
