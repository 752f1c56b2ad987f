"""The lines that were seen, eight bytes each: most occur once, and there may be tens of millions, most of them on the disk."""

from __future__ import annotations

import mmap
import tempfile
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kvtool.accounting.ledger.lines import Names, distinct

_MOST_RECENT = 4_096
"""The most unsorted names: a set takes some ten times as much room for each, and answers in a fraction of the time."""
_GROWTH = 8
"""A sorted array is merged into the one before it when that is less than so many times as long."""
_MOST_IN_MEMORY = 1 << 20
"""Names of a sorted array, 8 MiB, from which on it goes to a file that has no name, and is merged no more."""


class LineSet:
    """Names of lines in a few sorted arrays, each much longer than the next one, and the latest in a set."""

    def __init__(self, *, in_memory: int = _MOST_IN_MEMORY) -> None:
        self._most = in_memory
        self._levels: list[Names] = []
        self._recent: set[int] = set()
        self._filed: list[tuple[Names, mmap.mmap | None]] = []
        """Arrays that are not merged any more, and the files that they are in."""

    def __len__(self) -> int:
        return sum(map(len, self._sorted())) + len(self._recent)

    def __getstate__(self) -> dict[str, Any]:
        """Return the set for another process, which has no file of this one."""
        return {**vars(self), "_filed": [(names, None) for names, _ in self._filed]}

    def _sorted(self) -> list[Names]:
        return [*self._levels, *(names for names, _ in self._filed)]

    def has(self, names: Names) -> npt.NDArray[np.bool_]:
        """Return which of the names were added."""
        found = np.array([name in self._recent for name in names.tolist()], np.bool_)
        if not len(names):
            return found
        for level in self._sorted():
            at = level.searchsorted(names)
            at[at == len(level)] = 0
            found |= level[at] == names
        for _, file in self._filed:
            if file is not None:
                file.madvise(mmap.MADV_DONTNEED)  # else it would all be in memory soon
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
        if len(new) < self._most:
            self._levels.append(new)
        else:
            self._filed.append(_written(new))

    def check(self) -> None:
        """Assert the invariants."""
        every = np.concatenate([np.empty(0, np.uint64), *self._sorted(), np.array(list(self._recent), np.uint64)])
        assert len(np.unique(every)) == len(every)
        assert all((level[1:] > level[:-1]).all() for level in self._sorted())
        assert all(len(longer) >= _GROWTH * len(level) for longer, level in pairwise(self._levels))
        assert all(len(level) < self._most for level in self._levels)


def _written(names: Names) -> tuple[Names, mmap.mmap | None]:
    """Return names as they are in a file; those in memory where no file can be written."""
    try:
        with tempfile.TemporaryFile(prefix="kvtool-") as file:
            file.write(names.data.cast("B"))
            file.flush()
            filed = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        return names, None
    return np.frombuffer(filed, np.uint64), filed
