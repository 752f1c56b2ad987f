"""Values that stand in many sentences or lines of a text: to move all of these would move the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvtool.fixes.moves.movable_unit import IN_MANY
from kvtool.fixes.moves.move_target import MoveTarget, places_at, value_in
from kvtool.fixes.turn_texts import edited, map_texts
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

MANY = 4
"""Lines or sentences in which a value has to stand for them not to be moved."""
TRIED_WITHOUT = "the gain is that of prompts without the value"
_LEAST = 3
_LONGEST = 200
_MOST = 10_000
_ENDS = ".,;:!?\u3002\uff01\uff1f"
_LETTER = re.compile(r"[^\W\d_]")


def stands_in_many(text: str, start: int, stop: int) -> str | None:
    """The reason why a value is not moved that stands in many lines or sentences; None where it stands in few."""
    value = _core(text[start:stop])
    if not _LEAST <= len(value) <= _LONGEST or "\n" in value or not (_LETTER.search(value) or len(value) > _LEAST):
        return None
    if text.count(value) < MANY:
        return None
    last, count = -1, 0
    for low, _ in _places(text, value):
        line = text.find("\n", low)
        count += line != last
        last = line
    return IN_MANY if count >= MANY else None


def _core(value: str) -> str:
    """A value without the sign that ends its sentence."""
    return value.strip().rstrip(_ENDS) or value.strip()


def _places(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Where a value stands that is no part of a longer word."""
    before = r"(?<![A-Za-z0-9_])" if value[0].isalnum() and value[0].isascii() else ""
    behind = r"(?![A-Za-z0-9_])" if value[-1].isalnum() and value[-1].isascii() else ""
    for number, found in enumerate(re.finditer(f"{before}{re.escape(value)}{behind}", text)):
        if number == _MOST:
            return
        yield found.span()


def cut_values(turn: Turn, target: MoveTarget) -> Turn:
    """The turn without the target's values, wherever they stand: what it would say if it named them at its end only."""

    def change(text: str) -> str:
        plain = str.__str__(text)
        traced = Traced(text)
        values = {_core(plain[slice(*value_in(traced, *place, target))]) for place in places_at(traced, target)}
        edits: list[tuple[int, int, str]] = []
        for place in sorted({place for value in values if value for place in _places(plain, value)}):
            if not edits or place[0] >= edits[-1][1]:
                edits.append((*place, ""))
        return edited(text, edits) if edits else text

    return map_texts(turn, change)
