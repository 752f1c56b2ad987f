"""A check by hashes that two token sequences have a run of tokens in common, in a hundredth of the time of an alignment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
_BITS = 16
_FEW = 256
"""Tokens up to which it is as fast to look at each run."""


def may_share_run(a: Ids, b: Ids, length: int) -> bool:
    """Return whether some `length` tokens in a row of `a [n]` are in a row in `b [m]`, too. `length` is a power of two.

    Where it says no, there are none; a yes is wrong as rarely as two numbers of 64 bits agree by chance. Both have items of one
    size.
    """
    if min(len(a), len(b)) < length:
        return False
    probed = _probed(a, b, length)
    if probed is not None:
        return probed
    mine, theirs = _run_hashes(a, length), _run_hashes(b, length)
    # By a few bits of each hash first: next to none of text that has nothing in common is left.
    mine_short, theirs_short = _short(mine), _short(theirs)
    marked = np.zeros(1 << _BITS, np.bool_)
    marked[theirs_short] = True
    kept = marked[mine_short]
    mine, mine_short = mine[kept], mine_short[kept]
    marked[theirs_short] = False
    marked[mine_short] = True
    return not set(mine.tolist()).isdisjoint(theirs[marked[theirs_short]].tolist())


def _probed(a: Ids, b: Ids, length: int) -> bool | None:
    """Return whether a few runs of `a` are in `b`: prompts that share text mostly share that in the middle.

    Of short sequences all runs are looked for; of others None where none of the few is found.
    """
    mine, theirs = a.tobytes(), b.tobytes()
    size, run = b.itemsize, length * b.itemsize
    last = len(a) - length
    for at in (last // 2, last // 4, last - last // 4):
        found = theirs.find(mine[at * size : at * size + run])
        if found >= 0 and found % size == 0:
            return True
    if max(len(a), len(b)) > _FEW:
        return None
    runs = {theirs[at : at + run] for at in range(0, len(theirs) - run + 1, size)}
    return any(mine[at : at + run] in runs for at in range(0, len(mine) - run + 1, size))


def _short(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    return (hashes >> np.uint64(64 - _BITS)).astype(np.intp)


def _run_hashes(ids: Ids, length: int) -> npt.NDArray[np.uint64]:
    """A hash of every `length` tokens in a row, from those of half as many."""
    hashes = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_MULTIPLIERS[0])
    hashes ^= hashes >> np.uint64(29)
    step = 1
    while step < length:
        hashes = hashes[:-step] * np.uint64(_MULTIPLIERS[1 + step.bit_length() % 3]) + hashes[step:]
        hashes ^= hashes >> np.uint64(32)
        step *= 2
    return hashes
