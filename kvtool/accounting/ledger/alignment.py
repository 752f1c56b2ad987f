"""Align a prompt with its donor, the earlier request that shares most with it: equal text and differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from kvtool.accounting.prefix_tree import Ids
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn

Rung = Literal["seam", "cosmetic", "blocked"]
"""The rule that must be relaxed for the text after a gap to hit: see `kvtool.accounting.ledger.fates`."""
RUNGS: tuple[Rung, ...] = ("seam", "cosmetic", "blocked")

MIN_RUN = 8
"""Least consecutive tokens after a difference that count as the same text; shorter runs agree by chance."""


class Gap(NamedTuple):
    """Tokens `[start, stop)` of a prompt correspond to `[donor_start, donor_stop)` of its donor; either may be empty.

    `run` equal tokens follow, up to the next gap.
    """

    start: int
    stop: int
    donor_start: int
    donor_stop: int
    run: int


@dataclass(frozen=True, slots=True)
class EarlierPrompt:
    """An earlier request, kept to compare later ones with. `ids` are its prompt's tokens and those of its answer, as computed.

    `order` counts those that were kept, from 1 on.
    """

    turn: Turn
    prompt: Prompt
    ids: Ids
    order: int = 0


@dataclass(frozen=True, slots=True)
class DonorAlignment:
    """A prompt against its donor. The prompt was in the cache up to token `known`; the alignment is about the text after it.

    `gaps` are in order. The first one begins where the prompt leaves the donor: at `known`, or before it if the prompt shared a
    longer beginning with another request. Gaps without shared text after them are left out. `donor` is None if only the tokens of
    the earlier content are left (`donor_ids`), not their request.
    """

    known: int
    gaps: tuple[Gap, ...]
    donor_ids: Ids
    donor: EarlierPrompt | None = None


class Attributed(NamedTuple):
    """Tokens `[start, stop)` would hit if gaps of this rung and below were closed; gap `owner` is to blame for them."""

    start: int
    stop: int
    rung: Rung
    owner: int


def attribute(alignment: DonorAlignment, rungs: tuple[Rung, ...]) -> list[Attributed]:
    """Return the prompt's tokens that the gaps block, in order and without overlap, given the rung of each gap.

    The owner of a range is the first gap of the highest rung before it. Text in a seam or a cosmetic difference is the same text,
    so it belongs to the range unless something worse came before. No range begins before `known`.
    """
    found: list[Attributed] = []
    worst, owner = -1, 0
    for index, (gap, rung) in enumerate(zip(alignment.gaps, rungs, strict=True)):
        height = RUNGS.index(rung)
        if height > worst:
            worst, owner = height, index
        inside = worst < RUNGS.index("blocked") or (rung != "blocked" and not gap.run)  # nothing follows these
        start, stop = max(gap.start if inside else gap.stop, alignment.known), gap.stop + gap.run
        if start < stop:
            found.append(Attributed(start, stop, RUNGS[worst], owner))
    return found
