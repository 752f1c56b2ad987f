"""One slot whose values differ between prompts, and the tokens that it blocks in a group."""

from __future__ import annotations

from dataclasses import replace

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv131 import TEMPLATE_TIME
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.differing_ranges import RequestPair
from kvtool.diagnose.slots import Slot
from kvtool.diagnose.values.slot_values import Resolved, SlotValues
from kvtool.text.traced import Origin
from kvtool.workload.turn import RequestName

SHARE_UNITS = 720_720
"""The least common multiple of 1 to 16: shares of tokens are whole numbers of these, so they add up exactly."""
_STRUCTURE_IS_SURE = 0.95


class Opportunities:
    """Counts of comparisons of a group's requests with an earlier one of their session, and of another."""

    __slots__ = ("across", "within")

    def __init__(self) -> None:
        self.within = 0
        self.across = 0


class SlotCause:
    """A slot and what it blocks in one group. `excerpt` is its line in a prompt, with the range of the value in it."""

    __slots__ = (
        "_opportunities",
        "_resolved",
        "_resolved_at",
        "_share_units",
        "across",
        "blocked",
        "by_first",
        "excerpt",
        "first_kind",
        "first_token",
        "group",
        "in_group",
        "later_requests",
        "offset",
        "origin",
        "pair",
        "record",
        "slot",
        "structural",
        "value_start",
        "value_stop",
        "values",
        "visible_text",
        "within",
        "within_group",
        "written",
    )  # fmt: skip

    def __init__(
        self,
        group: str,
        slot: Slot,
        kind: DifferenceKind,
        origin: Origin | None,
        offset: int,
        excerpt: str,
        value_start: int,
        value_stop: int,
        first_token: int,
        *,
        structural: bool = False,
        opportunities: Opportunities | None = None,
    ) -> None:
        """`kind` is that of the first value; a `structural` one is known from the comparison of two requests and stays."""
        self.group = group
        self.slot = slot
        self.first_kind = kind
        self.origin = origin
        self.offset = offset
        self.excerpt = excerpt
        self.value_start = value_start
        self.value_stop = value_stop
        self.first_token = first_token
        self.record: RequestName | None = None
        """Which request of a log it was first seen in, and (`written`) path, line and column of the record."""
        self.written: tuple[str, int | None, int | None] | None = None
        self.pair: RequestPair | None = None
        """The first two requests of a log that tell it; None where there are none."""
        self.visible_text: tuple[str, str] | None = None
        """Of what nobody sees, the characters of either request where they first differ, escaped; of roles, the two."""
        self.later_requests = 0
        self.by_first = False
        self.in_group = False
        """Requests in which it is to blame for tokens."""
        self.blocked = 0
        """The tokens that it is to blame for: it is the first of the worst gaps before them."""
        self.within = 0
        """How often it changed between requests of one session, and (`across`) between requests of two."""
        self.across = 0
        self.within_group = 0
        """How often it was seen in a request of a group that has earlier requests with the same text."""
        self.values = SlotValues()
        self._share_units = 0
        self.structural = structural
        self._opportunities = opportunities or Opportunities()
        self._resolved = Resolved(kind, _STRUCTURE_IS_SURE if structural else 0.0)
        self._resolved_at = 0

    @property
    def in_source(self) -> bool:
        """Return whether it is in a file that people edit, not in a log."""
        return self.origin is not None and (not self.slot.logged or self.origin.one_of_many)

    @property
    def requests(self) -> int:
        """Return how many requests it blocks: the first of a group, which differs from other groups, counts where it is alone."""
        return self.later_requests or int(self.by_first)

    def blocks(self, *, first: bool) -> None:
        """Count a request that it blocks; `first`: the first of its group."""
        self.by_first |= first
        self.later_requests += not first

    def found_at(self, token: int, *, in_group: bool) -> None:
        """Keep the earliest token at which requests of the group differ; that of other groups only where there is no other."""
        if in_group == self.in_group:
            self.first_token = min(self.first_token, token)
        elif in_group:
            self.in_group, self.first_token = True, token

    @property
    def seen(self) -> int:
        """Return how many requests it changed in, whether or not it is to blame."""
        return self.values.seen

    @property
    def distinct(self) -> int:
        """Return how many values it took (counted up to 100,000)."""
        return self.values.taken

    @property
    def is_of_groups(self) -> bool:
        """Return whether it is no change in its group: the first request of that differs here from prompts of other groups."""
        return not self.within_group

    @property
    def is_of_other_groups(self) -> bool:
        """Return whether only prompts of other groups contain the value: this group's own text is complete without it."""
        return self.is_of_groups and not self.structural and 0 < self.values.seen == self.values.missing

    @property
    def share(self) -> float:
        """Return its fair share of the blocked tokens, each split evenly over the distinct slots before it.

        That is the Shapley value of the game in which a token is won when all slots before it are closed. The shares of a group's
        causes add up to the tokens that they are to blame for.
        """
        return self._share_units / SHARE_UNITS

    @property
    def volatility_within(self) -> float:
        """Return changes between requests of one session ÷ comparisons of two requests of one session; 0 where there were none."""
        return min(self.within / self._opportunities.within, 1.0) if self._opportunities.within else 0.0

    @property
    def volatility_across(self) -> float:
        """Return the same for requests of two sessions (a request without a session is one of its own)."""
        return min(self.across / self._opportunities.across, 1.0) if self._opportunities.across else 0.0

    @property
    def kind(self) -> DifferenceKind:
        """Return what varies, by all that was seen of it; of what only prompts of other groups contain, nothing is known."""
        if self.is_of_other_groups:
            return OTHER
        kind = self._resolve().kind
        return TEMPLATE_TIME if self.slot.part == "chat template" and kind.code == TIME.code else kind

    @property
    def confidence(self) -> float:
        """Return how sure the kind is: 0 (a guess) to 1; see `Values.resolve`. A change of structure has 0.95."""
        return self._resolve().confidence

    def _resolve(self) -> Resolved:
        if not self.structural and self.values.seen != self._resolved_at:
            constant = self._opportunities.within >= 2 and self.volatility_within <= 0.1
            before = "" if self.slot.frame is None else self.slot.frame.before
            self._resolved = self.values.resolve(self.slot.variable, constant_within=constant, before=before)
            self._resolved_at = self.values.seen
        return self._resolved

    def saw(self, slot: Slot) -> None:
        """Keep what this value of the slot has beside it like all others before."""
        mine = self.slot.frame
        frame = None if mine is None or slot.frame is None else mine.narrowed(slot.frame)
        mixed = self.slot.mixed or slot.mixed
        if frame is not mine or mixed != self.slot.mixed:
            self.slot = replace(self.slot, frame=frame, mixed=mixed)

    def add_share(self, units: int) -> None:
        """Add to its fair share, in `SHARE_UNITS` of a token."""
        self._share_units += units

    def scale(self, weight: float) -> None:
        """Count each of its tokens as so many."""
        self.later_requests = round(self.later_requests * weight)
        self.blocked = round(self.blocked * weight)
        self._share_units = round(self._share_units * weight)
