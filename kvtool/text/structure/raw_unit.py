"""Ranges that may be units, and the tree that those of them make which nest."""

from __future__ import annotations

from collections.abc import Sequence
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
"""Bits of a place for the kind, and for all after where it begins: no text has 2^34 characters.

What comes first begins first; of these the longest one, then that of the first kind.
"""


class RawUnit(NamedTuple):
    """A range that may be a unit."""

    kind: UnitKind
    start: int
    stop: int
    body: int


def unit_of(kind: UnitKind, start: int, stop: int, body: int, children: tuple[TextUnit, ...]) -> TextUnit:
    """`TextUnit(…)` in half of its time: a text of short lines has hundreds of thousands."""
    return tuple.__new__(TextUnit, (kind, start, stop, body, children))


def nested(kind: UnitKind, start: int, stop: int, raws: Sequence[RawUnit], *, body: int | None = None) -> TextUnit:
    """A unit with those ranges in it that nest; of two that cross, the one that begins first stays, of equals the first kind.

    What is nested deeper than 64 units is left out.
    """
    opened: list[RawUnit] = [RawUnit(kind, start, stop, start if body is None else body)]
    inside: list[list[TextUnit]] = [[]]
    places = [(low << _ABOVE) - (end << _KINDS) + _ORDER[kind] for kind, low, end, _ in raws]
    before = None
    high = stop
    for index in sorted(range(len(places)), key=places.__getitem__):
        raw, place = raws[index], places[index]
        _, low, end, _ = raw
        if place == before or not start <= low < end <= stop:
            continue
        before = place
        while low >= high:
            children = inside.pop()
            inside[-1].append(tuple.__new__(TextUnit, (*opened.pop(), tuple(children) if children else ())))
            high = opened[-1][2]
        if end <= high and len(opened) < _DEEPEST:
            opened.append(raw)
            inside.append([])
            high = end
    while len(opened) > 1:
        children = inside.pop()
        inside[-1].append(TextUnit(*opened.pop(), tuple(children)))
    return TextUnit(*opened[0], tuple(inside[0]))
