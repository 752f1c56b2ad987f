"""Which units of a text hold what a fix moves, remembered: the same texts come again in each run that tries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from kvtool.fixes.movable_unit import Movable
from kvtool.text.traced import marks_of

_MOST = 32_768
"""Texts whose units are remembered, some 250 bytes each; those that come later are read again each time."""


class HeldUnits:
    """The units that can move of texts that were asked for, by all that they depend on: text, role, and where it was written."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Movable, ...]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def since(self, count: int) -> list[tuple[int, tuple[Movable, ...]]]:
        """What was learned after so many texts."""
        return list(islice(self._known.items(), count, None))

    def learn(self, found: list[tuple[int, tuple[Movable, ...]]]) -> None:
        """What a copy of this process has learned."""
        self._known.update(found[: max(_MOST - len(self._known), 0)])

    def of(self, text: str, role: str, find: Callable[[], Iterable[Movable | str]]) -> tuple[Movable, ...]:
        """Those of a text; `find` gives them, and reasons for others, where they are not known."""
        marks = tuple((*mark, "" if mark.origin is None else mark.origin.text) for mark in marks_of(text))
        key = hash((str.__str__(text), role, marks))
        units = self._known.get(key)
        if units is None:
            units = tuple(unit for unit in find() if isinstance(unit, Movable))
            if len(self._known) < _MOST:
                self._known[key] = units
        return units
