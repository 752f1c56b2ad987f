"""The gaps between a prompt and its donor, named: what differs in each, and what reuse after it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvtool.accounting.ledger.alignment import DonorAlignment, Gap, Rung
from kvtool.diagnose.causes.compared_prompts import ComparedPrompts, GapDifference
from kvtool.diagnose.causes.differing_values import DifferingValues
from kvtool.diagnose.causes.structure_changes import StructureChanges
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv122 import SEAM
from kvtool.diagnose.codes.structure.kv124 import GENERATED
from kvtool.diagnose.codes.values.kv106 import FILE
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.differing_ranges import (
    PromptSide,
    by_line,
    trimmed,
    widened,
)
from kvtool.diagnose.invisible_differences import cosmetic, first_word
from kvtool.diagnose.values.value_shapes import in_file_list, lists_files
from kvtool.text.tokens.prompt import Ids, Prompt
from kvtool.workload.turn import Turn

_CONTEXT = 4
"""Tokens around a gap that are decoded with it: the bytes of one character may be in several tokens."""
_MOST_DECODED = 4096
_LONG_LINE = 240


class GapNamer:
    """Names the gaps of one alignment."""

    def __init__(
        self, turn: Turn, prompt: Prompt, alignment: DonorAlignment, decode: Callable[[Ids], str] | None = None
    ) -> None:
        self._prompts = ComparedPrompts(turn, prompt, alignment, decode)
        self._structure = StructureChanges(self._prompts)
        self._values = DifferingValues(self._prompts, self._structure)

    def name(self, gap: Gap) -> tuple[Rung, list[GapDifference]]:
        """Return the rung of a gap and its slots, the first of which is to blame; none where the prompt has no text."""
        if self._prompts.prompt.text is None:
            return "blocked", []
        own = self._prompts.own(gap)
        theirs = self._prompts.theirs(gap)
        kind = self._token_boundary(gap, own, theirs)
        if kind is not None:
            return "seam", [self._structure.slot(kind, own)]
        change = self._structure.find(own, theirs)
        # A file that a listing has or lacks is no section: the listing is what varies.
        listed = change is not None and change.kind is OPTIONAL and lists_files(change.before or change.after)
        if change is not None and not listed:
            return "cosmetic" if change.cosmetic else "blocked", [self._structure.slot_of(change, own, theirs)]
        spelling = None if listed else self._spelling(own, theirs)
        if spelling is not None:
            return "cosmetic", [self._structure.slot(spelling, own)._replace(other=str(theirs))]
        found: list[GapDifference] = []
        for mine, other in by_line(*trimmed(own, theirs)):
            found += self._values.find(mine, other)
        found = found or [self._values.literal(own, None)]
        found = [_as_file(each) if listed or _is_entry(each) else each for each in found]
        found[-1] = found[-1]._replace(tail=self._rest_of_line(gap.stop, own.stop))
        return "blocked", found

    def sides(self, gap: Gap, named: GapDifference) -> tuple[PromptSide, PromptSide] | None:
        """Return what the donor has where a slot of a gap is, and what this prompt has; None where the donor's prompt does not
        tell.
        """
        own, theirs = self._prompts.own(gap), self._prompts.theirs(gap)
        if theirs is None or not self._prompts.is_donors(theirs):
            return None
        lines = [trimmed(own, theirs)] if named.structural else list(by_line(*trimmed(own, theirs)))
        of_donor = named.text is theirs.text
        for now, was in lines:
            side = was if of_donor else now
            if was is None or side is None or not (side.start <= named.high and named.low <= side.stop):
                continue
            if of_donor:
                return PromptSide(was.text, named.low, named.high), widened(was, now, named.low, named.high)
            if named.structural:
                return was, now
            return widened(now, was, named.low, named.high), PromptSide(now.text, named.low, named.high)
        return theirs, own

    def donors_value(self, gap: Gap, named: GapDifference) -> str | None:
        """Return the donor's text where a value is; None where it has none, or its prompt does not tell."""
        if named.structural or named.absent or named.donors is not None:
            return named.donors
        sides = self.sides(gap, named)
        return None if sides is None else str(sides[0])

    def rest_of_tools(self, token: int) -> int:
        """Count tokens from `token` to the end of the stretch without messages that it is in; 0 where it is in a message."""
        found = self._prompts.prompt.char_range(token) if token < len(self._prompts.prompt) else None
        if found is None or self._prompts.layout.message_part(found[0], found[0] + 1) is not None:
            return 0
        return max(self._prompts.prompt.token_at(self._prompts.layout.around(found[0], found[0])[1]) - token, 0)

    def _rest_of_line(self, token: int, start: int) -> int:
        """Count tokens from `token`, whose text begins at `start`, to the end of the line or, where that is
        far, of the sentence.
        """
        text = str.__str__(self._prompts.text)
        end = text.find("\n", start, start + _LONG_LINE)
        if end < 0:
            end = text.find(". ", start, start + _LONG_LINE) + 1 or min(start + _LONG_LINE, len(text))
        return max(self._prompts.prompt.token_at(end) - token, 0)

    def _token_boundary(self, gap: Gap, own: PromptSide, theirs: PromptSide | None) -> DifferenceKind | None:
        """Return the kind of a gap whose tokens are other ones of the same text; None where the texts differ."""
        lengths = gap.stop - gap.start, gap.donor_stop - gap.donor_start
        if not min(lengths) or max(lengths) > _MOST_DECODED:
            return None
        donor = self._prompts.donor
        generated = donor is not None and gap.donor_stop > len(donor.prompt)
        if theirs is not None and donor is not None and not generated:
            same = own.stop > own.start and str(own) == str(theirs)
        elif self._prompts.decode is not None:
            before, after = min(_CONTEXT, gap.start, gap.donor_start), min(_CONTEXT, gap.run)
            mine = self._prompts.prompt.ids[gap.start - before : gap.stop + after]
            other = self._prompts.alignment.donor_ids[gap.donor_start - before : gap.donor_stop + after]
            same = self._prompts.decode(mine) == self._prompts.decode(other)
        else:
            return None
        if not same:
            return None
        message_part = self._prompts.layout.message_part(own.start, own.stop)
        answered = message_part is not None and self._prompts.layout.role(message_part.index) == "assistant"
        return GENERATED if generated or answered else SEAM

    def _spelling(self, own: PromptSide, theirs: PromptSide | None) -> DifferenceKind | None:
        """Return the form that alone differs in a gap; on a line that varies elsewhere, too, the whole comparison does not tell
        it.
        """
        if theirs is None:
            return None
        mine, other = str(own), str(theirs)
        if first_word(mine) != first_word(other):
            return None
        if mine.isascii() and other.isascii() and mine.split() != other.split():
            return None
        behind = str.__getitem__(own.text, slice(own.stop, own.stop + 1))
        same = behind == str.__getitem__(theirs.text, slice(theirs.stop, theirs.stop + 1))
        end = (behind if same else "") + "\0"
        unseen = cosmetic("\0" + mine + end, "\0" + other + end)
        return unseen[-1].kind if unseen else None


def _as_file(named: GapDifference) -> GapDifference:
    """Return a value that is an entry of a listing of files."""
    return named._replace(kind=FILE, slot=replace(named.slot, kind=FILE.key))


def _is_entry(named: GapDifference) -> bool:
    """Return whether a value of which nothing else is known is in a listing of files."""
    return named.kind is OTHER and named.slot.variable is None and in_file_list(named.text, named.low)
