"""Two prompts beside each other, one of which has most in common with the other: their texts, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeGuard

from kvtool.accounting.ledger.alignment import DonorAlignment, Gap
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.compare.history import history_start
from kvtool.diagnose.compare.messages import goes_on
from kvtool.diagnose.differing_ranges import (
    PromptSide,
    Sources,
    char_span,
)
from kvtool.diagnose.prompt_layout import Layout
from kvtool.diagnose.slots import Slot
from kvtool.diagnose.tool_places import TOOLS
from kvtool.diagnose.tool_places import tool_place as tools_place
from kvtool.text.tokens.prompt import Ids, Prompt
from kvtool.text.traced import Origin
from kvtool.workload.turn import Turn

_MOST_DECODED = 4096


class GapDifference(NamedTuple):
    """One slot that varies in a gap. `value` is this prompt's, empty where only the donor has one; `[low, high)` is its range in
    `text`, which is the donor's then. `structural` kinds are known from the comparison of the requests. `other` is the donor's
    value where it counts as one, too.
    """

    slot: Slot
    kind: DifferenceKind
    structural: bool
    origin: Origin | None
    offset: int
    text: str
    low: int
    high: int
    value: str
    label: str = ""
    absent: bool = False
    other: str | None = None
    donors: str | None = None
    """The donor's value of the same template variable; None where it has none."""
    tail: int = 0
    """Tokens after the gap that belong to the same line: they go with the value where its line goes."""


class ComparedPrompts:
    """A prompt and its donor, the earlier prompt with the most similar text."""

    def __init__(
        self, turn: Turn, prompt: Prompt, alignment: DonorAlignment, decode: Callable[[Ids], str] | None = None
    ) -> None:
        self.turn = turn
        self.prompt = prompt
        self.alignment = alignment
        self.decode = decode
        donor = alignment.donor
        self.donor = None if donor is None or donor.prompt.text is None else donor
        """None where its text is not known."""
        self.text: str = "" if prompt.text is None else prompt.text

    @cached_property
    def layout(self) -> Layout:
        """Return where the messages of the prompt are in its text."""
        return Layout(self.turn, str.__str__(self.text))

    @cached_property
    def sources(self) -> Sources:
        """Return where each text of the prompt comes from."""
        return Sources(self.text)

    @cached_property
    def donor_sources(self) -> Sources:
        """Return where each text of the donor comes from."""
        return Sources(self.donor.prompt.text if self.donor is not None and self.donor.prompt.text is not None else "")

    def sources_of(self, side: PromptSide) -> Sources:
        """Return where each text comes from, of the prompt to which a side belongs."""
        return self.donor_sources if self.is_donors(side) else self.sources

    @cached_property
    def in_session(self) -> bool:
        """Return whether the donor belongs to the same session, as far as sessions are told apart."""
        return self.donor is not None and self.donor.turn.session == self.turn.session

    @cached_property
    def goes_on(self) -> bool:
        """Return whether this request goes on with the donor's conversation, where the log does not tell sessions apart."""
        if self.donor is None or self.turn.session is not None:
            return True
        before, after = self.donor.turn.messages, self.turn.messages
        return before is None or after is None or goes_on(before, after)

    def own(self, gap: Gap) -> PromptSide:
        """Return what the prompt has in a gap."""
        return PromptSide(self.text, *char_span(self.prompt, gap.start, gap.stop))

    def theirs(self, gap: Gap) -> PromptSide | None:
        """Return what the donor has there: in its prompt, or decoded where it was generated or the prompt is not known any more."""
        donor = self.donor
        if donor is not None and gap.donor_stop <= len(donor.prompt) and donor.prompt.text is not None:
            return PromptSide(donor.prompt.text, *char_span(donor.prompt, gap.donor_start, gap.donor_stop))
        if self.decode is None or gap.donor_stop - gap.donor_start > _MOST_DECODED:
            return None
        text = self.decode(self.alignment.donor_ids[gap.donor_start : gap.donor_stop])
        return PromptSide(text, 0, len(text))

    def is_donors(self, side: PromptSide | None) -> TypeGuard[PromptSide]:
        """Return whether a side is of the donor's prompt, so that its text is traced."""
        return side is not None and self.donor is not None and side.text is self.donor.prompt.text

    def shifting(self, side: PromptSide) -> str | None:
        """Return the part that a place belongs to if it may be elsewhere in other turns, as the history does; else None."""
        messages = self.turn.messages
        if messages is None:
            origin, _ = self.sources.origin(side.start)
            return origin.part if origin is not None and side.start >= self._history else None
        if not messages:
            return None
        message_part = self.layout.message_part(side.start, side.stop)
        index = message_part.index if message_part is not None else self.layout.next_message(side.start)
        index = min(index, len(messages) - 1)
        return f"messages ({self.layout.role(index)})" if self.layout.shifts(index) else None

    def tool_place(self, side: PromptSide) -> str:
        """Return the place of a text in the definitions of the tools."""
        tools = self.turn.tools if side.text is self.text else None
        return tools_place(tools, str.__str__(side.text), side.start) or TOOLS

    @cached_property
    def _history(self) -> int:
        """Return the first character of the history in a prompt that is one text."""
        return history_start(str.__str__(self.text))
