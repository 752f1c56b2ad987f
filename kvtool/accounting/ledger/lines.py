"""Prompts as sets of lines: each line's text as one number."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvtool.accounting.prefix_tree import Ids
from kvtool.text.align import LineEnds, chunk_cuts, chunk_ends, line_cuts

Names = npt.NDArray[np.uint64]

_LONG = 64
"""A longer line is cut further, at places that its content decides: JSON and many a document are one line."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a token sequence: line i is `[starts[i], stops[i])`, and equal lines have equal names."""

    starts: npt.NDArray[np.intp]
    stops: npt.NDArray[np.intp]
    names: Names


def split_lines(ids: Ids, newline: LineEnds | None, known: int = 0) -> Lines:
    """Cut `ids [n]` after those that end a line; where there is no text (None), where the content decides. Lines that end in the
    first `known` tokens are left out."""
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
    cuts = cuts[np.searchsorted(cuts[1:], known, "right") :]
    data, size = ids[cuts[0] :].tobytes(), ids.itemsize
    names = [hash(data[start:stop]) for start, stop in pairwise(((cuts - cuts[0]) * size).tolist())]
    return Lines(cuts[:-1], cuts[1:], np.array(names, np.int64).view(np.uint64))


def distinct(names: Names) -> Names:
    """Return each name once, in order (`numpy.unique` builds a hash table for it, which takes several times as long)."""
    names = np.sort(names)
    first = np.ones(len(names), np.bool_)
    np.not_equal(names[1:], names[:-1], out=first[1:])
    return names[first]
