"""Find the gaps of a prompt: differences from earlier content with shared text after them."""

from __future__ import annotations

from kvtool.accounting.ledger.alignment import MIN_RUN, Gap
from kvtool.accounting.prefix_tree import Ids
from kvtool.text.align import EqualRun, LineEnds, align, common_prefix
from kvtool.text.shared_runs import may_share_run

MOST_GAPS = 64
"""Gaps of a prompt at most; beyond that the shortest runs between them are given up."""
_MOST_ALIGNED = 1_000_000
"""Tokens of a prompt, from the first difference on, that are aligned."""


def find_gaps(ids: Ids, known: int, donor_ids: Ids, *, newline: LineEnds | None) -> tuple[Gap, ...]:
    """Return the gaps of a prompt `ids [n]` against `donor_ids [m]` up to the last common text after token `known`.

    `newline` marks the ids that end a line (None: ids without text).
    """
    if len(ids) - known < MIN_RUN:
        return ()
    begin = common_prefix(ids, donor_ids)
    mine, theirs = ids[begin : begin + _MOST_ALIGNED], donor_ids[begin : begin + 2 * _MOST_ALIGNED]
    if begin + len(mine) <= known or len(theirs) < MIN_RUN:
        return ()
    # A run that counts ends after `known`, so its last tokens are after this place: most requests with text of their own have none.
    if not may_share_run(mine[max(known + 1 - MIN_RUN - begin, 0) :], theirs, MIN_RUN):
        return ()
    runs = align(mine, theirs, newline=newline, min_run=MIN_RUN)
    runs = _longest([EqualRun(begin + i, begin + j, length) for i, j, length in runs], known)
    if not runs or runs[-1].a_start + runs[-1].length <= known:
        return ()
    gaps: list[Gap] = []
    at = donor_at = begin
    for start, donor_start, length in runs:
        gaps.append(Gap(at, start, donor_at, donor_start, length))
        at, donor_at = start + length, donor_start + length
    return tuple(gaps)


def _longest(runs: list[EqualRun], known: int) -> list[EqualRun]:
    """Return at most `MOST_GAPS` runs: those with the most tokens after `known`, in order."""
    if len(runs) <= MOST_GAPS:
        return runs
    behind = [run.a_start + run.length - max(run.a_start, known) for run in runs]
    kept = sorted(range(len(runs)), key=lambda index: (-behind[index], index))[:MOST_GAPS]
    return [runs[index] for index in sorted(kept)]
