"""Alignment of two token sequences after their first difference.

Common ends are cut off by numpy; the middle is aligned line by line, then token by token inside what lines left over. Each level is
a longest common subsequence where the product of the lengths is bounded. Beyond that, tokens go by chunks that the content itself
bounds, and lines or chunks from anchor to anchor: those that occur once on either side, in the order both have them in.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32] | npt.NDArray[np.int64]
LineEnds = Collection[int] | npt.NDArray[np.bool_]

_MAX_CELLS = 1 << 26
"""Bound on the product of two lengths: one bit each, so 8 MB and some 10 ms for a longest common subsequence."""
_FEW = 512
"""Items up to which lists are aligned as they are."""
_SHORT = 1024
"""Tokens of stretches that are looked through for a common row before they are aligned."""
_MAX_TOKEN_CELLS = 1 << 24
"""The same where the items are tokens; longer stretches are cut into chunks first."""


class EqualRun(NamedTuple):
    """`a[a_start:a_start+length]` equals `b[b_start:b_start+length]`."""

    a_start: int
    b_start: int
    length: int


def align(a: Ids, b: Ids, *, newline: LineEnds | None = None, min_run: int = 4) -> list[EqualRun]:
    """The equal runs of `a [n]` and `b [m]`, in increasing order in both and not overlapping.

    `newline` says which ids end a line: a mask over the vocabulary (fastest) or a set of ids. Runs shorter than `min_run` are
    coincidence and are dropped, except the common prefix, which is what a cache shares.
    """
    prefix = common_prefix(a, b)
    suffix = common_prefix(a[prefix:][::-1], b[prefix:][::-1])
    if suffix < min_run:  # a line end, say: the last line is better left whole
        suffix = 0
    stop_a, stop_b = len(a) - suffix, len(b) - suffix
    blocks = [EqualRun(0, 0, prefix)]
    if prefix < stop_a and prefix < stop_b:
        middle_a, middle_b = a[prefix:stop_a], b[prefix:stop_b]
        pairs = (
            _tokens(middle_a, middle_b, min_run)
            if newline is None
            else _pieces(
                middle_a, middle_b, line_cuts(middle_a, newline), line_cuts(middle_b, newline), min_run, chunked=True
            )
        )
        blocks += [EqualRun(prefix + i, prefix + j, n) for i, j, n in pairs]
    blocks.append(EqualRun(stop_a, stop_b, suffix))
    return [run for run in _joined(blocks) if run.length >= min_run or (run.a_start == 0 == run.b_start)]


def align_items(a: list[int], b: list[int]) -> list[EqualRun]:
    """`align` of two lists, however short a run is: of few items, as lines and words are, without arrays."""
    if max(len(a), len(b)) > _FEW:
        return align(np.array(a, np.int32), np.array(b, np.int32), min_run=1)
    most = min(len(a), len(b))
    prefix = next((at for at in range(most) if a[at] != b[at]), most)
    most -= prefix
    suffix = next((at for at in range(most) if a[-1 - at] != b[-1 - at]), most)
    stop_a, stop_b = len(a) - suffix, len(b) - suffix
    blocks = [EqualRun(0, 0, prefix)]
    if prefix < stop_a and prefix < stop_b:
        blocks += [EqualRun(prefix + i, prefix + j, n) for i, j, n in _sequence(a[prefix:stop_a], b[prefix:stop_b])]
    blocks.append(EqualRun(stop_a, stop_b, suffix))
    return list(_joined(blocks))


def common_prefix(a: Ids, b: Ids) -> int:
    """Count the leading items that are equal."""
    n = min(len(a), len(b))
    if not n or a[0] != b[0]:
        return 0
    at, step = 0, 256
    while at < n:  # in growing strides: sequences that differ early cost little
        differs = a[at : min(at + step, n)] != b[at : min(at + step, n)]
        first = int(differs.argmax())
        if differs[first]:
            return at + first
        at, step = at + step, step * 4
    return n


def _joined(blocks: list[EqualRun]) -> Iterator[EqualRun]:
    """Runs that touch in both sequences made one; empty ones dropped."""
    last = EqualRun(0, 0, 0)
    for run in blocks:
        if not run.length:
            continue
        if last.length and last.a_start + last.length == run.a_start and last.b_start + last.length == run.b_start:
            last = EqualRun(last.a_start, last.b_start, last.length + run.length)
            continue
        if last.length:
            yield last
        last = run
    if last.length:
        yield last


def _pieces(
    a: Ids, b: Ids, cuts_a: npt.NDArray[np.intp], cuts_b: npt.NDArray[np.intp], min_run: int, *, chunked: bool
) -> list[EqualRun]:
    """Equal runs by whole pieces (lines or chunks), and those of `min_run` tokens or more in between."""
    names: dict[bytes, int] = {}
    bounds_a, bounds_b = cuts_a.tolist(), cuts_b.tolist()
    keys_a, keys_b = _keys(a, bounds_a, names), _keys(b, bounds_b, names)
    runs: list[EqualRun] = []
    at_a = at_b = 0
    for i, j, n in [*_sequence(keys_a, keys_b), EqualRun(len(keys_a), len(keys_b), 0)]:
        start_a, start_b = bounds_a[i], bounds_b[j]
        runs += _between(a, b, at_a, start_a, at_b, start_b, min_run, chunked=chunked)
        at_a, at_b = bounds_a[i + n], bounds_b[j + n]
        runs.append(EqualRun(start_a, start_b, at_a - start_a))
    return runs


def _between(
    a: Ids, b: Ids, start_a: int, stop_a: int, start_b: int, stop_b: int, min_run: int, *, chunked: bool
) -> list[EqualRun]:
    """The common ends of two stretches, and the equal runs of `min_run` tokens or more between these.

    What is between them neither begins nor ends alike, so no run there goes on in one of the ends.
    """
    if start_a == stop_a or start_b == stop_b:
        return []
    left_a, left_b = a[start_a:stop_a], b[start_b:stop_b]
    prefix = common_prefix(left_a, left_b)
    suffix = common_prefix(left_a[prefix:][::-1], left_b[prefix:][::-1])
    inner: list[EqualRun] = []
    middle_a, middle_b = left_a[prefix : len(left_a) - suffix], left_b[prefix : len(left_b) - suffix]
    if _may_share(middle_a, middle_b, min_run):
        inner = _tokens(middle_a, middle_b, min_run, chunked=chunked)
    return [
        EqualRun(start_a, start_b, prefix),
        *(EqualRun(start_a + prefix + i, start_b + prefix + j, n) for i, j, n in inner),
        EqualRun(stop_a - suffix, stop_b - suffix, suffix),
    ]


def _may_share(a: Ids, b: Ids, run: int) -> bool:
    """Return whether `run` tokens in a row may be in both; reported of short stretches only, by what any such row has half of."""
    if min(len(a), len(b)) < run:
        return False
    half = (run + 1) // 2
    if half == 1 or max(len(a), len(b)) > _SHORT or a.dtype != b.dtype:
        return True
    mine, theirs, size = a.tobytes(), b.tobytes(), half * a.itemsize
    return any(mine[at : at + size] in theirs for at in range(0, len(mine) - size + 1, size))


def line_cuts(ids: Ids, newline: LineEnds) -> npt.NDArray[np.intp]:
    """Return the offsets at which lines begin and end: `[0, …, len(ids)]`."""
    if isinstance(newline, np.ndarray):
        ends = newline.take(ids, mode="clip")
        ends &= ids < len(newline)
    else:
        ends = np.isin(ids, np.fromiter(newline, dtype=np.int32, count=len(newline)))
    return _bounds(ends)


def _bounds(ends: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Cuts after every item that ends a piece."""
    (at,) = ends.nonzero()
    if len(at) and at[-1] == len(ends) - 1:
        at = at[:-1]
    cuts = np.empty(len(at) + 2, np.intp)
    cuts[0], cuts[-1] = 0, len(ends)
    np.add(at, 1, out=cuts[1:-1])
    return cuts


def _keys(ids: Ids, bounds: list[int], names: dict[bytes, int]) -> list[int]:
    """A small number for each line; equal lines have equal numbers."""
    data, size = ids.tobytes(), ids.itemsize
    return [
        names.setdefault(data[start:stop], len(names)) for start, stop in pairwise([bound * size for bound in bounds])
    ]


def _tokens(a: Ids, b: Ids, min_run: int, *, chunked: bool = True) -> list[EqualRun]:
    """Equal runs by tokens; by chunks first where there are too many tokens for a subsequence."""
    if not len(a) or not len(b):
        return []
    if len(a) * len(b) <= _MAX_TOKEN_CELLS:
        return _sequence(array("q", a.astype(np.int64).tobytes()), array("q", b.astype(np.int64).tobytes()), min_run)
    return _pieces(a, b, chunk_cuts(a), chunk_cuts(b), min_run, chunked=False) if chunked else []


def chunk_cuts(ids: Ids) -> npt.NDArray[np.intp]:
    """Cuts `[0, …, len(ids)]` after every sixteenth token or so, where the tokens there alone decide: equal text is cut alike."""
    return _bounds(chunk_ends(ids))


def chunk_ends(ids: Ids) -> npt.NDArray[np.bool_]:
    """After which tokens `chunk_cuts` cuts."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed[1:] ^= mixed[:-1] >> np.uint64(7)
    ends: npt.NDArray[np.bool_] = (mixed >> np.uint64(40)) & np.uint64(15) == 0
    return ends


def _sequence(a: Sequence[int], b: Sequence[int], min_run: int = 1) -> list[EqualRun]:
    """Runs of `min_run` items or more of a longest common subsequence, or of anchors where that would take too much memory."""
    if len(a) * len(b) > _MAX_CELLS:
        return list(_anchors(a, b))
    from rapidfuzz.distance import LCSseq

    matches = LCSseq.editops(array("q", a), array("q", b)).as_matching_blocks()
    return [EqualRun(match.a, match.b, match.size) for match in matches if match.size >= min_run]


def _anchors(a: Sequence[int], b: Sequence[int]) -> Iterator[EqualRun]:
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
    yield from (EqualRun(*pairs[index], 1) for index in reversed(path))


def _once(items: Sequence[int]) -> dict[int, int]:
    """Items that occur exactly once, with their places, in order."""
    found: dict[int, int] = {}
    for at, item in enumerate(items):
        found[item] = -1 if item in found else at
    return {item: at for item, at in found.items() if at >= 0}
