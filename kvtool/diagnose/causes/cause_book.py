"""Causes of blocked tokens: text that differs between prompts of a group although the same text follows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from kvtool.accounting.ledger.alignment import DonorAlignment, Gap, Rung, attribute
from kvtool.diagnose.causes.compared_prompts import GapDifference
from kvtool.diagnose.causes.gap_namer import GapNamer
from kvtool.diagnose.causes.slot_cause import SHARE_UNITS, Opportunities, SlotCause
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED, LIST_REORDERED
from kvtool.diagnose.codes.structure.kv114 import EXAMPLES_REORDERED
from kvtool.diagnose.codes.structure.kv116 import ROLE_CHANGED
from kvtool.diagnose.codes.structure.kv121 import KV121
from kvtool.diagnose.differing_ranges import LineExcerpt, example_pair_of
from kvtool.diagnose.slots import Slot, SlotSet, SlotSets
from kvtool.diagnose.tool_places import in_tools
from kvtool.diagnose.values.log_slots import KnownPlaces
from kvtool.diagnose.visible_characters import visible_text
from kvtool.text.tokens.prompt import Ids, Prompt
from kvtool.workload.turn import Turn

MOST_NAMED = 16
"""Gaps of a request that are named one by one, and slots that are told apart before a token."""
MOST_CAUSES = 1024
"""Slots of a group that are told apart; further ones count as one slot."""
PERMUTED = (DOCUMENTS_REORDERED.key, LIST_REORDERED.key, EXAMPLES_REORDERED.key)
"""Kinds of change whose gaps hold the same text as other gaps."""


class CauseBook:
    """Collects causes; holds some examples and a count of each, never prompts."""

    def __init__(self, decode: Callable[[Ids], str] | None = None, *, block_size: int = 1) -> None:
        """`decode` turns token ids into text; without it, seams in what was generated are not told from other differences.

        `block_size` is the tokens of a block: what is predicted comes in whole ones.
        """
        self._decode = decode
        self._block_size = block_size
        self._causes: dict[str, dict[Slot, SlotCause]] = {}
        self._slot_sets: dict[str, SlotSets] = {}
        self._opportunities: dict[str, Opportunities] = {}
        self._places = KnownPlaces()

    def add(self, turn: Turn, prompt: Prompt, alignment: DonorAlignment) -> tuple[Rung, ...]:
        """Enter what a prompt and its donor differ in; returns the rung of each gap. Where there are no gaps, that is `met`."""
        # The rest of a group's first prompt can only be in prompts of other groups.
        first = turn.group not in self._opportunities
        is_first = alignment.donor is None and first
        if alignment.donor is not None:
            self.met(turn, alignment.donor.turn)
        if not alignment.gaps:
            return ()
        namer = GapNamer(turn, prompt, alignment, self._decode)
        rungs: list[Rung] = []
        slots: list[list[SlotCause]] = []
        tails: list[int] = []
        counted: set[Slot] = set()
        donor = alignment.donor.turn if alignment.donor is not None else None
        in_group = donor is not None and donor.group == turn.group
        for gap in alignment.gaps[:MOST_NAMED]:
            rung, found = namer.name(gap)
            rungs.append(rung)
            causes: list[SlotCause] = []
            for seen in found:
                cause, named = self._cause(turn, seen, gap.start)
                cause.found_at(gap.start, in_group=in_group)
                if cause.pair is None:
                    _show(cause, namer, named, gap, turn, alignment)
                causes.append(cause)
                if cause.slot not in counted:
                    counted.add(cause.slot)
                    _count(cause, named, turn, donor)
                    cause.within_group += not is_first
                    if in_group and (named.donors is not None or cause.values.seen == 1):
                        cause.values.add_donors(namer.donors_value(gap, named))
            slots.append(causes)
            tails.append(found[-1].tail if found else 0)
        rest, last = len(alignment.gaps) - len(rungs), alignment.gaps[-1]
        if rungs[-1] == "cosmetic" and not rest and slots[-1] and in_tools(slots[-1][0].slot.part):
            tails[-1] -= namer.rest_of_tools(last.stop + last.run)  # they are in another order there, too
        rungs += rungs[-1:] * rest
        slots += slots[-1:] * rest
        tails += [0] * rest
        slot_sets = self._book(turn.group, alignment, tuple(rungs), slots, first=first and not in_group)
        self._promise(turn.group, alignment, rungs, slots, slot_sets, tails, len(prompt))
        return tuple(rungs)

    def met(self, turn: Turn, donor: Turn) -> None:
        """Count that a request was compared with an earlier one. Of the accountant's only where there is no alignment to `add`."""
        seen = self._opportunities.setdefault(turn.group, Opportunities())
        if turn.session is not None and turn.session == donor.session:
            seen.within += 1
        else:
            seen.across += 1

    def of_group(self, group: str) -> list[SlotCause]:
        """Return the causes of a group, the costliest first."""
        causes = self._causes.get(group, {}).values()
        return sorted(causes, key=lambda cause: (-cause.blocked, -cause.share, cause.first_token))

    def scale(self, group: str, weight: float) -> None:
        """Count every token of a group's causes as so many: they were looked for in a part of its requests."""
        for cause in self._causes.get(group, {}).values():
            cause.scale(weight)
        if group in self._slot_sets:
            self._slot_sets[group].scale(weight)

    def behind(self, group: str, slot: Slot) -> int:
        """Count tokens that are after a slot and in an earlier prompt, too, whichever of the slots before them is to blame."""
        return self._slot_sets[group].behind(slot) if group in self._slot_sets else 0

    def predicted(self, group: str, slots: Collection[Slot]) -> int:
        """Count tokens that closing these slots would win: those after nothing else, in whole blocks, the last token left out.

        The cache is taken for unlimited, and what was in the gaps for gone from the front of the prompt.
        """
        return self._slot_sets[group].predicted(slots) if group in self._slot_sets else 0

    def __iter__(self) -> Iterator[SlotCause]:
        return (cause for causes in self._causes.values() for cause in causes.values())

    def _book(
        self,
        group: str,
        alignment: DonorAlignment,
        rungs: tuple[Rung, ...],
        slots: list[list[SlotCause]],
        *,
        first: bool,
    ) -> list[SlotSet]:
        """Give the attributed tokens to their owners, to all slots before them, and to the slot_set of these.

        Returns the slot_set of slots up to each gap.
        """
        before: list[dict[Slot, SlotCause]] = []
        slot_set: dict[Slot, SlotCause] = {}
        for causes in slots:
            for cause in causes:
                if len(slot_set) < MOST_NAMED or cause.slot in slot_set:
                    slot_set[cause.slot] = cause
            before.append(dict(slot_set))
        owners: dict[Slot, SlotCause] = {}
        ends = [gap.stop + gap.run for gap in alignment.gaps]
        at = 0
        for found in attribute(alignment, rungs):
            while found.stop > ends[at]:
                at += 1
            owner = next(iter(slots[found.owner]), None)
            if owner is None:
                continue
            tokens = found.stop - found.start
            owner.blocked += tokens
            owners[owner.slot] = owner
            there = before[at]
            for cause in there.values():
                cause.add_share(tokens * (SHARE_UNITS // len(there)))
            self._slot_sets.setdefault(group, SlotSets()).add(tuple(there), tokens)
        for owner in owners.values():
            owner.blocks(first=first)
        return [tuple(there) for there in before]

    def _promise(
        self,
        group: str,
        alignment: DonorAlignment,
        rungs: Sequence[Rung],
        slots: list[list[SlotCause]],
        slot_sets: list[SlotSet],
        lost: list[int],
        length: int,
    ) -> None:
        """Count what a cache would hit if the gaps were closed one after the other.

        `lost` tokens after each go with what is in it (a negative number: so many more would be the same).
        """
        reached = alignment.known
        hits = self._whole_blocks(reached, length)
        promises = self._slot_sets.setdefault(group, SlotSets())
        for gap, rung, causes, slot_set, gone in zip(alignment.gaps, rungs, slots, slot_sets, lost, strict=True):
            same_text = rung != "blocked" or any(cause.first_kind.key in PERMUTED for cause in causes)
            start = max(gap.start if same_text else gap.stop, alignment.known)
            reached += max(gap.stop + gap.run - start - gone, 0)
            more = self._whole_blocks(reached, length)
            promises.promise(slot_set, more - hits)
            hits = more

    def _whole_blocks(self, tokens: int, length: int) -> int:
        """Return what hits of a prompt whose first `tokens` are known: the last of its tokens is always computed."""
        return max(min(tokens, length - 1), 0) // self._block_size * self._block_size

    def _cause(self, turn: Turn, named: GapDifference, token: int) -> tuple[SlotCause, GapDifference]:
        """Return the cause of a slot, made where it is new, and the value as one of its: all of what the slot's frame holds."""
        group = turn.group
        causes = self._causes.setdefault(group, {})
        if named.slot not in causes:
            named = self._places.as_known(group, named, lambda known: causes[known].slot)
        slot = named.slot
        if slot not in causes and len(causes) >= MOST_CAUSES:
            slot = Slot("", 0, 0, part="other places", logged=True)
        cause = causes.get(slot)
        if cause is None:
            excerpt, start, stop = LineExcerpt.around(named.text, named.low, named.high)
            cause = causes[slot] = SlotCause(
                group,
                slot,
                named.kind,
                named.origin,
                named.offset,
                excerpt,
                start,
                stop,
                token,
                structural=named.structural,
                opportunities=self._opportunities.setdefault(group, Opportunities()),
            )
            self._places.add(group, slot)
        cause.saw(slot)
        return cause, named


def _count(cause: SlotCause, named: GapDifference, turn: Turn, donor: Turn | None) -> None:
    """Enter a value, once for each request."""
    session = turn.session if turn.session is not None else turn.salt
    if cause.visible_text is None and named.other is not None:
        if named.kind.code == KV121.code:
            cause.visible_text = visible_text(named.other, named.value)
        elif named.kind is ROLE_CHANGED:
            cause.visible_text = named.other, named.value
    cause.values.add(named.value, named.kind, named.label, session, absent=named.absent, other=named.other)
    if donor is not None and turn.session is not None and turn.session == donor.session:
        cause.within += 1
    else:
        cause.across += 1


def _show(
    cause: SlotCause, namer: GapNamer, named: GapDifference, gap: Gap, turn: Turn, alignment: DonorAlignment
) -> None:
    """Keep where in a log a cause is, and the pair of requests that tells it; nothing of requests that are of no log."""
    if turn.name is None:
        return
    donor = alignment.donor
    if cause.record is None:
        first = turn
        if donor is not None and named.text is donor.prompt.text:
            first = donor.turn
        cause.record, cause.written = first.name, first.written
    if donor is None or donor.turn.name is None or gap.donor_stop > len(donor.prompt):
        return
    if not (turn.name.known and donor.turn.name.known):
        return
    sides = namer.sides(gap, named)
    if sides is not None:
        cause.pair = example_pair_of(donor.turn.name, turn.name, *sides)
