"""Ranges that may be units, and the tree that those of them make which nest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvtool.text.structure.text_unit import TextUnit, UnitKind

_ORDER: dict[UnitKind, int] = {
    kind: rank
    for rank, kind in enumerate[UnitKind](
        (
            "document",
            "element",
            "section",
            "introduced",
            "quote",
            "list",
            "numbered",
            "item",
            "fence",
            "paragraph",
            "data",
            "table",
            "rows",
            "row",
            "statement",
        )
    )
}
"""Which of two units of one range holds the other."""


_DEEPEST = 64
_KINDS = 6
_ABOVE = 40
"""Bits of a place for the kind, and for all behind where it begins: no text has 2^34 characters."""


class RawUnit(NamedTuple):
    """A range that may be a unit."""

    kind: UnitKind
    start: int
    stop: int
    body: int


def nested(kind: UnitKind, start: int, stop: int, raws: Iterable[RawUnit], *, body: int | None = None) -> TextUnit:
    """A unit with those ranges in it that nest; of two that cross, the one that begins first stays, of equals the first kind.

    What is nested deeper than 64 units is left out.
    """
    opened: list[RawUnit] = [RawUnit(kind, start, stop, start if body is None else body)]
    inside: list[list[TextUnit]] = [[]]
    before: RawUnit | None = None
    high = stop
    for raw in sorted(raws, key=_place):
        low, end = raw[1], raw[2]
        if not start <= low < end <= stop or (before is not None and raw[:3] == before[:3]):
            continue
        before = raw
        while low >= high:
            _close(opened, inside)
            high = opened[-1][2]
        if end <= high and len(opened) < _DEEPEST:
            opened.append(raw)
            inside.append([])
            high = end
    while len(opened) > 1:
        _close(opened, inside)
    return TextUnit(*opened[0], tuple(inside[0]))


def _place(raw: RawUnit) -> int:
    """What comes first begins first; of these the longest one, then that of the first kind."""
    return (raw[1] << _ABOVE) - (raw[2] << _KINDS) + _ORDER[raw[0]]


def _close(opened: list[RawUnit], inside: list[list[TextUnit]]) -> None:
    """The last unit that is open goes into the one around it."""
    kind, start, stop, body = opened.pop()
    children = inside.pop()
    inside[-1].append(TextUnit(kind, start, stop, body, tuple(children) if children else ()))
