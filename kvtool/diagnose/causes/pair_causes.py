"""What keeps one request from reusing another one: the causes that a run of the two finds, with the places where they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.accounting.ledger.alignment import DonorAlignment, EarlierPrompt, Gap
from kvtool.accounting.ledger.ledger import Ledger
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.diagnose.causes.compared_prompts import GapDifference
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.text.align import align, common_prefix
from kvtool.text.tokens.prompt import Ids, Prompt
from kvtool.text.traced import Origin
from kvtool.workload.turn import Turn

Side = tuple[Turn, Prompt]


class PairCause(NamedTuple):
    """A cause, and the place where the two prompts differ in it."""

    cause: SlotCause
    place: GapDifference

    @property
    def kind(self) -> DifferenceKind:
        return self.cause.kind

    def touches(self, text: str, start: int, stop: int) -> bool:
        """Return whether it is in these characters of a prompt; `text` is the very text of either prompt."""
        return text is self.place.text and self.place.low <= stop and start <= self.place.high

    def is_at(self, origin: Origin | None, start: int, stop: int) -> bool:
        """Return whether it is in these characters of the text written at `origin`."""
        place = self.place
        width = place.high - place.low
        return origin is not None and origin == place.origin and place.offset <= stop and start <= place.offset + width


class _PairBook(CauseBook):
    """Collects the causes of two requests with their places, in the order of the prompt."""

    def __init__(self, decode: Callable[[Ids], str] | None) -> None:
        super().__init__(decode)
        self.found: list[PairCause] = []

    def _cause(self, turn: Turn, named: GapDifference, token: int) -> tuple[SlotCause, GapDifference]:
        cause, known = super()._cause(turn, named, token)
        self.found.append(PairCause(cause, known))
        return cause, known


def causes_between(
    before: Side,
    after: Side,
    *,
    newline: Callable[[], npt.NDArray[np.bool_]] | None = None,
    decode: Callable[[Ids], str] | None = None,
) -> list[PairCause]:
    """Return why the later prompt stops reusing the earlier one, in order: what `kvtool profile` finds in a run of the two.

    Where no shared text follows, a run has no cause; then what differs first is named by the same rules. Requests without text,
    and a prompt that the other one begins with, have none.
    """
    sides = [(replace(turn, group=""), prompt) for turn, prompt in (before, after)]
    book, ledger = _PairBook(decode), Ledger(1, newline=newline, fates=False)
    for turn, prompt in sides:
        entry = ledger.submit(turn, prompt.ids, prompt.ids[:0], prompt=prompt)
        if entry.alignment is not None:
            book.add(turn, prompt, entry.alignment)
    return book.found or _first_difference(sides, newline, book)


def _first_difference(
    sides: Sequence[Side], newline: Callable[[], npt.NDArray[np.bool_]] | None, book: _PairBook
) -> list[PairCause]:
    (earlier, theirs), (turn, mine) = sides
    start = common_prefix(theirs.ids, mine.ids)
    if start in (len(theirs), len(mine)) or theirs.text is None or mine.text is None:
        return []
    runs = align(mine.ids, theirs.ids, newline=None if newline is None else newline())
    stop, donor_stop, run = next((each for each in runs if each.a_start > start), (len(mine), len(theirs), 0))
    gap = Gap(start, stop, start, donor_stop, run)
    book.add(turn, mine, DonorAlignment(start, (gap,), theirs.ids, EarlierPrompt(earlier, theirs, theirs.ids, 1)))
    return book.found
