"""The lines that were seen, eight bytes each: most occur once, and there may be tens of millions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvtool.accounting.ledger.lines import Names, distinct

_MOST_RECENT = 4_096
"""The most unsorted names: a set takes some ten times as much room for each, and answers in a fraction of the time."""
_GROWTH = 8
"""A sorted array is merged into the one before it when that is less than so many times as long."""


class LineSet:
    """Names of lines in a few sorted arrays, each much longer than the next one, and the latest in a set."""

    def __init__(self) -> None:
        self._levels: list[Names] = []
        self._recent: set[int] = set()

    def __len__(self) -> int:
        return sum(map(len, self._levels)) + len(self._recent)

    def has(self, names: Names) -> npt.NDArray[np.bool_]:
        """Return which of the names were added."""
        found = np.array([name in self._recent for name in names.tolist()], np.bool_)
        if not len(names):
            return found
        for level in self._levels:
            at = level.searchsorted(names)
            at[at == len(level)] = 0
            found |= level[at] == names
        return found

    def add(self, names: Names) -> None:
        """Add names, none of which was added before."""
        if len(self._recent) + len(names) < _MOST_RECENT:
            self._recent.update(names.tolist())
            return
        new = distinct(np.concatenate([names, np.fromiter(self._recent, np.uint64, len(self._recent))]))
        self._recent.clear()
        while self._levels and len(self._levels[-1]) < _GROWTH * len(new):
            new = np.concatenate([self._levels.pop(), new])
            new.sort(kind="stable")  # merges sorted names
        self._levels.append(new)

    def check(self) -> None:
        """Assert the invariants."""
        every = np.concatenate([np.empty(0, np.uint64), *self._levels, np.array(list(self._recent), np.uint64)])
        assert len(np.unique(every)) == len(every)
        assert all((level[1:] > level[:-1]).all() for level in self._levels)
        assert all(len(longer) >= _GROWTH * len(level) for longer, level in pairwise(self._levels))
