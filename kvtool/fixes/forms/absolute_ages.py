"""How long ago something was, in messages that are sent again: when it was stays the same, and is told in its place."""

from __future__ import annotations

from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.detectors import AGE_KEY, DETECTORS
from kvtool.fixes.turn_texts import edited, map_texts
from kvtool.workload.turn import Turn

TELL_WHEN = "tell when it was in place of how long ago that is: it then stays the same in all later requests"
_AGE = next(pattern for kind, pattern in DETECTORS if kind.key == AGE_KEY)
_STEADY = "0 min ago"


def with_steady_ages(turn: Turn) -> Turn:
    """The turn with one age in place of all: as steady as when it was, and about as long."""

    def change(text: str) -> str:
        edits = [(*found.span(), _STEADY) for found in _AGE.finditer(plain_signs(str.__str__(text)))]
        return edited(text, edits) if edits else text

    return map_texts(turn, change)
