"""Ranges that may be units, and the tree that those of them make which nest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
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


class RawUnit(NamedTuple):
    """A range that may be a unit."""

    kind: UnitKind
    start: int
    stop: int
    body: int


@dataclass(slots=True)
class _Open:
    raw: RawUnit
    children: list[TextUnit] = field(default_factory=list)

    def closed(self) -> TextUnit:
        return TextUnit(*self.raw, tuple(self.children))


def nested(kind: UnitKind, start: int, stop: int, raws: Iterable[RawUnit], *, body: int | None = None) -> TextUnit:
    """A unit with those ranges in it that nest; of two that cross, the one that begins first stays, of equals the first kind.

    What is nested deeper than 64 units is left out.
    """
    stack = [_Open(RawUnit(kind, start, stop, start if body is None else body))]
    seen: set[tuple[UnitKind, int, int]] = set()
    for raw in sorted(raws, key=lambda raw: (raw.start, -raw.stop, _ORDER[raw.kind])):
        if not start <= raw.start < raw.stop <= stop or raw[:3] in seen:
            continue
        while raw.start >= stack[-1].raw.stop:
            unit = stack.pop().closed()
            stack[-1].children.append(unit)
        if raw.stop <= stack[-1].raw.stop and len(stack) < _DEEPEST:
            seen.add(raw[:3])
            stack.append(_Open(raw))
    while len(stack) > 1:
        unit = stack.pop().closed()
        stack[-1].children.append(unit)
    return stack[0].closed()
