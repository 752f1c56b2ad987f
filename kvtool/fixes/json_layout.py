"""JSON in fenced code as most requests write it, where requests write the same JSON in several layouts (tier P1).

One layout alone may show how an answer is to be laid out, so it stays; where the same data comes in several, none of them is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kvtool.fixes.json_form import on_one_line, one_line_of
from kvtool.fixes.turn_texts import edited, map_texts, texts_of
from kvtool.text.json_text import json_in
from kvtool.text.structure.fenced import fenced_ranges
from kvtool.workload.turn import Turn

_MOST_VALUES = 64
_LONGEST = 20_000
"""Characters of JSON, up to which it is looked at."""


@dataclass(frozen=True)
class OneLayout:
    """A transform: each JSON in fenced code that samples write in several layouts is written in the most frequent one of them."""

    layouts: dict[str, str]
    roles: frozenset[str]

    @classmethod
    def learn(cls, samples: Sequence[Turn], roles: Collection[str]) -> OneLayout | None:
        """From the texts of these roles; None where no JSON in fenced code has two layouts."""
        written: dict[str, Counter[str]] = {}
        for turn in samples:
            for at in texts_of(turn):
                if at.role not in roles:
                    continue
                for _, _, raw, same in _fenced_json(str.__str__(at.text)):
                    if same in written or len(written) < _MOST_VALUES:
                        written.setdefault(same, Counter())[raw] += 1
        layouts = {same: raws.most_common(1)[0][0] for same, raws in written.items() if len(raws) > 1}
        return cls(layouts, frozenset(roles)) if layouts else None

    def __call__(self, turn: Turn) -> Turn:
        return on_one_line(map_texts(turn, self._rewritten, self.roles), self.roles)

    def _rewritten(self, text: str) -> str:
        edits = [
            (start, stop, layout)
            for start, stop, raw, same in _fenced_json(str.__str__(text))
            if (layout := self.layouts.get(same, raw)) != raw
        ]
        return edited(text, edits) if edits else text


def _fenced_json(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Start, stop, text, and text on one line of each JSON in fenced code."""
    if "```" not in text and "~~~" not in text:
        return
    fenced = fenced_ranges(text)
    for found in json_in(text):
        inside = any(start <= found.start and found.stop <= stop for start, stop in fenced)
        if inside and found.stop - found.start <= _LONGEST:
            raw = text[found.start : found.stop]
            yield found.start, found.stop, raw, one_line_of(raw)
