"""Where a prompt and its donor, the earlier request that it shares most with, say the same and where they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from kvtool.accounting.prefix_tree import Ids
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn

Rung = Literal["seam", "cosmetic", "blocked"]
"""Which rule would have to be kinder for the text behind a gap to hit: see `kvtool.accounting.ledger.fates`."""
RUNGS: tuple[Rung, ...] = ("seam", "cosmetic", "blocked")

MIN_RUN = 8
"""Tokens in a row that must agree behind a difference to count as the same text (shorter runs agree by chance)."""


class Gap(NamedTuple):
    """Tokens `[start, stop)` of a prompt stand where its donor has `[donor_start, donor_stop)`; either may be empty.

    `run` tokens follow that both have, up to the next gap.
    """

    start: int
    stop: int
    donor_start: int
    donor_stop: int
    run: int


@dataclass(frozen=True, slots=True)
class Seen:
    """An earlier request, kept to compare later ones with. `ids` are its prompt's tokens and those of its answer, as computed.

    `order` counts those that were kept, from 1 on.
    """

    turn: Turn
    prompt: Prompt
    ids: Ids
    order: int = 0


@dataclass(frozen=True, slots=True)
class DonorAlignment:
    """A prompt against its donor. Up to token `known` the prompt stood in the cache; what matters is the text behind that.

    `gaps` are in order; the first one begins where the prompt leaves the donor. That is at `known`, or before it where the prompt
    began like some other request for longer. Gaps behind which nothing is shared any more are left out. `donor` is None where only
    the tokens of the earlier content are left (`donor_ids`), not the request that they came from.
    """

    known: int
    gaps: tuple[Gap, ...]
    donor_ids: Ids
    donor: Seen | None = None


class Attributed(NamedTuple):
    """Tokens `[start, stop)` would hit if gaps of this rung and below were closed; gap `owner` is to blame for them."""

    start: int
    stop: int
    rung: Rung
    owner: int


def attribute(alignment: DonorAlignment, rungs: tuple[Rung, ...]) -> list[Attributed]:
    """Which of a prompt's tokens the gaps block, in order and not overlapping, given the rung of each gap.

    The owner of a stretch is the first gap of the highest rung before it. What stands in a seam or in a cosmetic difference is the
    same text itself, so it belongs to the stretch unless something worse came before. No stretch begins before `known`.
    """
    found: list[Attributed] = []
    worst, owner = -1, 0
    for index, (gap, rung) in enumerate(zip(alignment.gaps, rungs, strict=True)):
        height = RUNGS.index(rung)
        if height > worst:
            worst, owner = height, index
        inside = worst < RUNGS.index("blocked") or (
            rung != "blocked" and not gap.run
        )  # of these there is nothing behind them
        start, stop = max(gap.start if inside else gap.stop, alignment.known), gap.stop + gap.run
        if start < stop:
            found.append(Attributed(start, stop, RUNGS[worst], owner))
    return found
