"""Fates of a request's tokens that do not come from the ladder: after moved blocks, and after differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvtool.accounting.ledger.alignment import Attributed, DonorAlignment, Rung, attribute
from kvtool.accounting.ledger.ranges import Ranges
from kvtool.accounting.ledger.sums import Booked


def replace_moved(booked: list[Booked], known: int, hit: int) -> list[Booked]:
    """Return the fates after the tokens up to `hit`, which were moved there from elsewhere, are replaced."""
    behind = [Booked(max(start, hit), stop, fate) for start, stop, fate in booked if stop > hit]
    return [*(each for each in booked if each.stop <= known and each.fate == "hit"), Booked(known, hit, "hit"), *behind]


def after_gaps(
    attributed: Sequence[Attributed] | None, alignment: DonorAlignment | None, repeated: Iterable[tuple[int, int]]
) -> list[Booked]:
    """Return the unknown tokens of a prompt that exist elsewhere: after gaps, or in `repeated` lines."""
    if attributed is None:
        attributed = [] if alignment is None else attribute(alignment, _all_blocked(alignment))
    booked = [Booked(found.start, found.stop, found.rung) for found in attributed]
    if not repeated:
        return booked
    explained = Ranges()
    explained.put(0, ((found.start, found.stop) for found in attributed))
    for left, right in repeated:
        booked += [Booked(start, stop, "displaced") for start, stop in explained.outside(0, left, right)]
    return sorted(booked)


def _all_blocked(alignment: DonorAlignment) -> tuple[Rung, ...]:
    return tuple("blocked" for _ in alignment.gaps)
