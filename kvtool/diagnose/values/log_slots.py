"""The slots of logs by where they stand: a value of another form at a known place is a value of the slot that is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvtool.diagnose.causes.compared_prompts import GapDifference
from kvtool.diagnose.slots import Slot
from kvtool.diagnose.values.classify import OTHER, classify


class KnownPlaces:
    """The slots of each group that have a frame, by their place."""

    def __init__(self) -> None:
        self._slots: dict[tuple[object, ...], list[Slot]] = {}

    def add(self, group: str, slot: Slot) -> None:
        """Enter a new slot."""
        if slot.frame is not None:
            self._slots.setdefault((group, *slot.place), []).append(slot)

    def as_known(self, group: str, named: GapDifference, now: Callable[[Slot], Slot]) -> GapDifference:
        """Return a value in the frame of a slot of its place as one of that slot, whatever it looks like; any other as it is.

        `now` gives a slot with the frame that all its values have so far.
        """
        new = named.slot.frame
        if new is None or named.structural or named.low == named.high:
            return named
        value = str.__getitem__(named.text, slice(named.low, named.high))
        for known in self._slots.get((group, *named.slot.place), ()):
            slot = now(known)
            found = None if slot.frame is None else slot.frame.value_in(f"{new.before}{value}{new.after}")
            if found is None:
                continue
            low, high = (at - len(new.before) + named.low for at in found)
            if low < named.high and named.low < high:
                return _as_value(named, replace(slot, mixed=True), low, high)
        return named


def _as_value(named: GapDifference, slot: Slot, low: int, high: int) -> GapDifference:
    """Return the value `named.text[low:high]` of a slot; what it was found in may say of it what it does not say by itself."""
    whole = str.__getitem__(named.text, slice(low, high))
    kind = classify(whole)
    return named._replace(
        slot=slot,
        kind=named.kind if kind is OTHER and named.low <= low and high <= named.high else kind,
        low=low,
        high=high,
        offset=max(named.offset + low - named.low, 0),
        label="",
        value=whole if named.value else "",
    )
