"""Where two token sequences say the same after they first differ.

Common ends are cut off by numpy; the middle is aligned line by line, then token by token inside what lines left over. Each level is
a longest common subsequence where the product of the lengths is bounded, else it goes from anchor to anchor: items that occur once
on either side, in the order both have them in.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Key = TypeVar("Key", int, bytes)
LineEnds = Collection[int] | npt.NDArray[np.bool_]

_MAX_CELLS = 1 << 26
"""Bound on the product of two lengths: one bit each, so 8 MB and some 10 ms for a longest common subsequence."""
_MAX_TOKEN_CELLS = 1 << 24
"""The same where items are tokens: anchors are surer there, and nearly as good."""
_GRAM = 4
"""Tokens in an anchor where there are too many tokens for a subsequence."""


class Run(NamedTuple):
    """`a[a_start:a_start+length]` equals `b[b_start:b_start+length]`."""

    a_start: int
    b_start: int
    length: int


def align(a: Ids, b: Ids, *, newline: LineEnds | None = None, min_run: int = 4) -> list[Run]:
    """The equal runs of `a [n]` and `b [m]`, in increasing order in both and not overlapping.

    `newline` tells which ids end a line: a mask over the vocabulary (fastest) or a set of ids. Runs shorter than `min_run` are
    coincidence and are dropped, except the common prefix, which is what a cache shares.
    """
    prefix = common_prefix(a, b)
    suffix = common_prefix(a[prefix:][::-1], b[prefix:][::-1])
    stop_a, stop_b = len(a) - suffix, len(b) - suffix
    blocks = [Run(0, 0, prefix)]
    if prefix < stop_a and prefix < stop_b:
        middle_a, middle_b = a[prefix:stop_a], b[prefix:stop_b]
        pairs = _tokens(middle_a, middle_b) if newline is None else _lines(middle_a, middle_b, newline)
        blocks += [Run(prefix + i, prefix + j, n) for i, j, n in pairs]
    blocks.append(Run(stop_a, stop_b, suffix))
    return [run for run in _joined(blocks) if run.length >= min_run or (run.a_start == 0 == run.b_start)]


def common_prefix(a: Ids, b: Ids) -> int:
    """How many leading items are equal."""
    n = min(len(a), len(b))
    at, step = 0, 256
    while at < n:  # in growing strides: sequences that differ early cost little
        differs = a[at : min(at + step, n)] != b[at : min(at + step, n)]
        first = int(differs.argmax())
        if differs[first]:
            return at + first
        at, step = at + step, step * 4
    return n


def _joined(blocks: list[Run]) -> Iterator[Run]:
    """Runs that touch in both sequences made one; empty ones dropped."""
    last = Run(0, 0, 0)
    for run in blocks:
        if not run.length:
            continue
        if last.length and last.a_start + last.length == run.a_start and last.b_start + last.length == run.b_start:
            last = Run(last.a_start, last.b_start, last.length + run.length)
            continue
        if last.length:
            yield last
        last = run
    if last.length:
        yield last


def _lines(a: Ids, b: Ids, newline: LineEnds) -> list[Run]:
    """Equal runs by whole lines, and by tokens in between."""
    cuts_a, cuts_b = _cuts(a, newline), _cuts(b, newline)
    names: dict[bytes, int] = {}
    keys_a, keys_b = _keys(a, cuts_a, names), _keys(b, cuts_b, names)
    runs: list[Run] = []
    at_a = at_b = 0
    for i, j, n in [*_sequence(keys_a, keys_b), Run(len(keys_a), len(keys_b), 0)]:
        start_a, start_b = int(cuts_a[i]), int(cuts_b[j])
        runs += _between(a, b, at_a, start_a, at_b, start_b)
        at_a, at_b = int(cuts_a[i + n]), int(cuts_b[j + n])
        runs.append(Run(start_a, start_b, at_a - start_a))
    return runs


def _between(a: Ids, b: Ids, start_a: int, stop_a: int, start_b: int, stop_b: int) -> list[Run]:
    """Equal runs of two stretches, after their common ends are cut off."""
    if start_a == stop_a or start_b == stop_b:
        return []
    left_a, left_b = a[start_a:stop_a], b[start_b:stop_b]
    prefix = common_prefix(left_a, left_b)
    suffix = common_prefix(left_a[prefix:][::-1], left_b[prefix:][::-1])
    inner = _tokens(left_a[prefix : len(left_a) - suffix], left_b[prefix : len(left_b) - suffix])
    return [
        Run(start_a, start_b, prefix),
        *(Run(start_a + prefix + i, start_b + prefix + j, n) for i, j, n in inner),
        Run(stop_a - suffix, stop_b - suffix, suffix),
    ]


def _cuts(ids: Ids, newline: LineEnds) -> npt.NDArray[np.intp]:
    """Where lines begin and end: `[0, …, len(ids)]`."""
    if isinstance(newline, np.ndarray):
        ends = newline[np.minimum(ids, len(newline) - 1)] & (ids < len(newline))
    else:
        ends = np.isin(ids, np.fromiter(newline, dtype=np.int32, count=len(newline)))
    cuts = np.flatnonzero(ends) + 1
    inner = cuts[:-1] if len(cuts) and cuts[-1] == len(ids) else cuts
    return np.concatenate(([0], inner, [len(ids)]))


def _keys(ids: Ids, cuts: npt.NDArray[np.intp], names: dict[bytes, int]) -> list[int]:
    """A small number for each line; equal lines have equal numbers."""
    data = np.ascontiguousarray(ids).tobytes()
    size = ids.itemsize
    bounds = (cuts * size).tolist()
    return [names.setdefault(data[start:stop], len(names)) for start, stop in pairwise(bounds)]


def _tokens(a: Ids, b: Ids) -> list[Run]:
    """Equal runs by tokens; by anchors of a few tokens where there are too many for a subsequence."""
    if not len(a) or not len(b):
        return []
    if len(a) * len(b) <= _MAX_TOKEN_CELLS:
        return _sequence(a.tolist(), b.tolist())
    runs: list[Run] = []
    at_a = at_b = 0
    for i, j, n in [*_anchors(_grams(a), _grams(b), _GRAM), Run(len(a), len(b), 0)]:
        if i < at_a or j < at_b:  # grams overlap: the part that is still free
            over = max(at_a - i, at_b - j)
            i, j, n = i + over, j + over, n - over
            if n <= 0:
                continue
        if (i - at_a) * (j - at_b) <= _MAX_TOKEN_CELLS:
            runs += _between(a, b, at_a, i, at_b, j)
        runs.append(Run(i, j, n))
        at_a, at_b = i + n, j + n
    return runs


def _grams(ids: Ids) -> list[bytes]:
    data = np.ascontiguousarray(ids).tobytes()
    size = ids.itemsize
    return [data[at : at + _GRAM * size] for at in range(0, (len(ids) - _GRAM + 1) * size, size)]


def _sequence(a: list[int], b: list[int]) -> list[Run]:
    """Matching runs of a longest common subsequence, or of anchors where that would take too much memory."""
    if len(a) * len(b) > _MAX_CELLS:
        return list(_anchors(a, b, 1))
    from rapidfuzz.distance import LCSseq

    matches = LCSseq.editops(array("q", a), array("q", b)).as_matching_blocks()
    return [Run(match.a, match.b, match.size) for match in matches if match.size]


def _anchors(a: Sequence[Key], b: Sequence[Key], length: int) -> Iterator[Run]:
    """Items that occur once in `a` and once in `b`: their longest subsequence that is in order in both."""
    where = _once(b)
    pairs = [(i, where[item]) for item, i in _once(a).items() if item in where]
    tails: list[int] = []  # tails[k]: the smallest end in b of a chain of k + 1 anchors
    chain: list[int] = []  # chain[k]: the pair that ends it
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        k = bisect_left(tails, j)
        before.append(chain[k - 1] if k else -1)
        tails[k : k + 1], chain[k : k + 1] = [j], [index]
    path: list[int] = []
    at = chain[-1] if chain else -1
    while at >= 0:
        path.append(at)
        at = before[at]
    yield from (Run(*pairs[index], length) for index in reversed(path))


def _once(items: Sequence[Key]) -> dict[Key, int]:
    """Items that occur exactly once, with their places, in order."""
    found: dict[Key, int] = {}
    for at, item in enumerate(items):
        found[item] = -1 if item in found else at
    return {item: at for item, at in found.items() if at >= 0}
