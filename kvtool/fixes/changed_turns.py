"""What a fix made of turns, kept for other runs with it."""

from __future__ import annotations

from kvtool.fixes.fix import Transform
from kvtool.fixes.turn_texts import texts_of
from kvtool.workload.turn import Turn

_MOST_CHARACTERS = 4_000_000
"""Characters of turns of which a fix remembers what it made, and"""
_EACH = 1_000
"""what a turn counts beside its texts."""


class ChangedTurns:
    """What a transformation made of turns, by turn.

    Those of a small log, and of a workload without sessions, are the same objects in each run.
    It takes the first turns up to `_MOST_CHARACTERS`. A turn of a workload's session is made anew in each run, and its history
    grows in it.
    """

    __slots__ = ("_known", "_left")

    def __init__(self) -> None:
        self._known: dict[int, tuple[Turn, Turn]] = {}
        self._left = _MOST_CHARACTERS

    def after(self, transform: Transform, turn: Turn) -> Turn:
        """Return what `transform`, always the same one, makes of a turn."""
        found = self._known.get(id(turn))
        if found is not None:
            return found[1]
        after = transform(turn)
        if (turn.session is None or turn.name is not None) and self._left > 0:
            self._left -= _EACH + sum(len(one.text) for one in texts_of(turn))
            self._known[id(turn)] = turn, after
        return after
