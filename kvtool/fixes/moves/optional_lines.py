"""Lines that come and go: requests without them prove that the rest of a text is complete without them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

from kvtool.fixes.moves.movable_unit import AMONG_RULES, Movable, lines_of
from kvtool.text.structure.masking import Span
from kvtool.text.structure.structure import structure_of
from kvtool.text.structure.text_unit import SEALED, TextUnit

_ORDERED = SEALED | {"numbered"}
"""Units that lines cannot be taken out of."""


class LinesWithout:
    """The lines of requests that do not have a value."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._pairs: set[tuple[str | None, str | None]] = set()
        for text in texts:
            self._pairs.update(pairwise((None, *lines_of(str.__str__(text)), None)))
        self._lines = {line for pair in self._pairs for line in pair}

    def narrowed(self, text: str, start: int, stop: int, unit: Movable | str) -> Movable | str:
        """Return the lines that come and go with the value at `[start, stop)` where its unit takes other lines with it; else the
        unit, or why it cannot move.
        """
        if isinstance(unit, str) and unit != AMONG_RULES:
            return unit
        lines = self._around(text, start, stop)
        if lines is None or (isinstance(unit, Movable) and lines[0] <= unit.start and unit.stop <= lines[1]):
            return unit
        if is_torn(structure_of(text).blocks_around(*lines), *lines):
            return unit
        return Movable(*lines, "section" if "\n" in text[slice(*lines)] else "statement")

    def _around(self, text: str, start: int, stop: int) -> Span | None:
        """Return the lines around a value that no request without it has, where one has their neighbours side by side."""
        lines = lines_of(str.__str__(text))
        low, high = text.count("\n", 0, start), text.count("\n", 0, stop) + 1
        if any(line in self._lines for line in lines[low:high]):
            return None
        while low and lines[low - 1] not in self._lines:
            low -= 1
        while high < len(lines) and lines[high] not in self._lines:
            high += 1
        around = lines[low - 1] if low else None, lines[high] if high < len(lines) else None
        if around not in self._pairs:
            return None
        begins = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
        return begins[low], begins[high] - 1


def is_torn(blocks: Iterable[TextUnit], start: int, stop: int) -> bool:
    """Return whether a range is a part of a block that can only move whole."""
    return any(unit.kind in _ORDERED and not (start <= unit.start and unit.stop <= stop) for unit in blocks)
