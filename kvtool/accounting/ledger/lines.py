"""Prompts as sets of lines: what a line says as one number, and a table of the lines that were seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.accounting.prefix_tree import Ids
from kvtool.text.align import LineEnds, chunk_cuts, chunk_ends, line_cuts

Names = npt.NDArray[np.uint64]

_LONG = 64
"""A longer line is cut further, at places that its content decides: JSON and many a document are one line."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a token sequence: line i is `[starts[i], stops[i])`, and equal lines have equal names (never 0)."""

    starts: npt.NDArray[np.intp]
    stops: npt.NDArray[np.intp]
    names: Names


def split_lines(ids: Ids, newline: LineEnds | None) -> Lines:
    """Cut `ids [n]` after those that end a line; where there is no text (None), where the content decides."""
    if not len(ids):
        nothing = np.empty(0, np.intp)
        return Lines(nothing, nothing, np.empty(0, np.uint64))
    if newline is None:
        cuts = chunk_cuts(ids)
    else:
        cuts = line_cuts(ids, newline)
        lengths = cuts[1:] - cuts[:-1]
        if lengths.max() > _LONG:
            ends = np.repeat(lengths > _LONG, lengths)
            ends[:-1] &= chunk_ends(ids)[:-1]
            ends[cuts[1:] - 1] = True
            cuts = np.concatenate(([0], np.flatnonzero(ends) + 1))
    starts, stops = cuts[:-1], cuts[1:]
    place = np.arange(len(ids)) - np.repeat(starts, stops - starts)
    mixed = _mix(ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + place.astype(np.uint64))
    return Lines(starts, stops, np.add.reduceat(mixed, starts) | np.uint64(1))


def distinct(names: Names) -> Names:
    """Each name once, in order (`numpy.unique` builds a hash table for it, which takes several times as long)."""
    names = np.sort(names)
    first = np.ones(len(names), np.bool_)
    np.not_equal(names[1:], names[:-1], out=first[1:])
    return names[first]


def _mix(values: Names) -> Names:
    """Numbers that look random, and differ wherever the given ones do."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class LineTable:
    """Lines and 64 marks for each, in 16 bytes; a line that lost its marks is forgotten when room is needed."""

    def __init__(self) -> None:
        self._make(256)

    def _make(self, size: int) -> None:
        # Open addressing: 0 is a free place, and at least three quarters are free.
        self._names = np.zeros(size, np.uint64)
        self._marks = np.zeros(size, np.uint64)
        self._filled = 0

    def marks(self, names: Names) -> Names:
        """The marks of each line, 0 for those never seen."""
        at = self._places(names)
        marks = self._marks[at]
        marks[self._names[at] != names] = 0
        return marks

    def mark(self, names: Names, marks: int) -> None:
        """Add marks to lines, each of which is given once."""
        if not len(names):
            return
        if 4 * (self._filled + len(names)) > len(self._names):
            self._make_room(len(names))
        self._insert(names, np.uint64(marks))

    def unmark(self, names: Names, marks: int) -> None:
        """Take marks from lines that were given to `mark`."""
        self._marks[self._places(names)] &= ~np.uint64(marks)

    def _insert(self, names: Names, marks: np.uint64 | Names) -> None:
        left = names
        while len(left):  # of several lines that want the same free place, one gets it
            at = self._places(left)
            free = self._names[at] == 0
            self._names[at[free]] = left[free]
            placed = self._names[at] == left
            self._filled += int(np.count_nonzero(placed & free))
            left = left[~placed]
        self._marks[self._places(names)] |= marks

    def _make_room(self, more: int) -> None:
        kept = self._marks != 0
        names, marks = self._names[kept], self._marks[kept]
        size = 256
        while size < 8 * (len(names) + more):
            size *= 2
        self._make(size)
        self._insert(names, marks)

    def _places(self, names: Names) -> npt.NDArray[np.intp]:
        """Where each line stands or, if it is new, the free place where it would."""
        last = len(self._names) - 1
        at = ((names >> np.uint64(1)) & np.uint64(last)).astype(np.intp)
        there = self._names[at]
        waiting = np.flatnonzero((there != 0) & (there != names))
        while len(waiting):
            at[waiting] = (at[waiting] + 1) & last
            there = self._names[at[waiting]]
            waiting = waiting[(there != 0) & (there != names[waiting])]
        return at
