"""Which units of a text hold what a fix moves, remembered: the same texts come again in each run that tries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from kvtool.fixes.moves.movable_unit import Movable
from kvtool.text.traced import marks_of

_MOST = 131_072
"""Texts whose units are remembered, some 150 bytes each; those that come later are read again each time."""


class HeldUnits:
    """The units that can move of texts that were asked for, by all that they depend on: text, role, and where it was written."""

    __slots__ = ("_alike", "_known")

    def __init__(self) -> None:
        self._known: dict[int, tuple[Movable, ...]] = {}
        self._alike: dict[tuple[Movable, ...], tuple[Movable, ...]] = {}
        """The same units, each once: most texts of one template have theirs at the same few places."""

    def __len__(self) -> int:
        return len(self._known)

    def since(self, count: int) -> list[tuple[int, tuple[Movable, ...]]]:
        """What was learned after so many texts."""
        return list(islice(self._known.items(), count, None))

    def learn(self, found: list[tuple[int, tuple[Movable, ...]]]) -> None:
        """What a copy of this process has learned."""
        for key, units in found[: max(_MOST - len(self._known), 0)]:
            self._known[key] = self._once(units)

    def _once(self, units: tuple[Movable, ...]) -> tuple[Movable, ...]:
        return self._alike.setdefault(units, units)

    def of(self, text: str, role: str, find: Callable[[], Iterable[Movable | str]]) -> tuple[Movable, ...]:
        """Those of a text; `find` gives them, and reasons for others, where they are not known."""
        marks = tuple((*mark, "" if mark.origin is None else mark.origin.text) for mark in marks_of(text))
        key = hash((str.__str__(text), role, marks))
        units = self._known.get(key)
        if units is None:
            units = tuple(unit for unit in find() if isinstance(unit, Movable))
            if len(self._known) < _MOST:
                self._known[key] = self._once(units)
        return units
