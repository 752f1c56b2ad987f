"""What a move takes along, in words: a line, a sentence, a section."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.fixes.moves.movable_unit import Movable
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.fixes.moves.split_text import units_held
from kvtool.fixes.turn_texts import texts_of
from kvtool.text.structure.text_unit import UnitKind
from kvtool.text.traced import line_around
from kvtool.workload.turn import Turn

_LOOKED_AT = 8
_WORDS = re.compile(r"[^\W\d_]{2}")

_NOUNS: dict[UnitKind, str] = {
    "statement": "line",
    "item": "line",
    "paragraph": "paragraph",
    "section": "section",
    "element": "element",
    "introduced": "block with its introduction",
    "list": "list",
    "numbered": "list",
    "table": "table",
    "fence": "code block",
    "data": "data",
    "quote": "quote",
}


def moved_noun(target: MoveTarget, samples: Sequence[Turn]) -> tuple[str, str | None]:
    """What moves with the values, in words, as the first sample tells it that has any; and why a unit of the first few cannot."""
    noun = refusal = None
    for number, turn in enumerate(samples):
        if noun is not None and (refusal is not None or number >= _LOOKED_AT):
            break
        for at in texts_of(turn):
            for unit in units_held(at.text, target, at.role):
                if isinstance(unit, Movable):
                    noun = noun or _noun(str.__str__(at.text), unit)
                elif number < _LOOKED_AT:
                    refusal = refusal or unit
    return noun or "line", refusal


def _noun(text: str, unit: Movable) -> str:
    """What a unit is called: a sentence, where it is a part of its line."""
    if unit.kind == "statement":
        start, stop = line_around(text, unit.start)[0], line_around(text, max(unit.stop - 1, unit.start))[1]
        if _WORDS.search(text, start, unit.start) or _WORDS.search(text, unit.stop, stop):
            return "sentence"
    return _NOUNS.get(unit.kind, "block")
