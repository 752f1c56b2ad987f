"""JSON in fenced code as most requests write it, where requests write the same JSON in several layouts (tier P1).

One layout alone may show how an answer is to be laid out, so it stays; where the same data comes in several, none of them is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from kvtool.fixes.forms.json_form import on_one_line, one_line_of
from kvtool.fixes.turn_texts import edited, map_texts, texts_of
from kvtool.text.json_text import json_in
from kvtool.text.structure.masking import fenced_ranges
from kvtool.workload.turn import Turn

_MOST_TEXTS = 512
_LONGEST = 20_000
"""Characters of JSON, up to which it is looked at."""


@dataclass(frozen=True)
class OneLayout:
    """A transform: each JSON that is all of a code block, and that requests write in several layouts, is written as most do."""

    layouts: dict[str, str]
    roles: frozenset[str]

    @classmethod
    def learn(cls, samples: Sequence[Turn], roles: Collection[str]) -> OneLayout | None:
        """From the texts of these roles; None where no JSON has two layouts. One text that shows both means to."""
        written: dict[str, Counter[str]] = {}
        meant: set[str] = set()
        texts = Counter(str.__str__(at.text) for turn in samples for at in texts_of(turn) if at.role in roles)
        for text, times in islice(texts.items(), _MOST_TEXTS):
            held: dict[str, str] = {}
            for _, _, raw, same in _blocks_of_json(text):
                if held.setdefault(same, raw) != raw:
                    meant.add(same)
            for same, raw in held.items():
                written.setdefault(same, Counter())[raw] += times
        layouts = {
            same: raws.most_common(1)[0][0] for same, raws in written.items() if len(raws) > 1 and same not in meant
        }
        return cls(layouts, frozenset(roles)) if layouts else None

    def __call__(self, turn: Turn) -> Turn:
        return on_one_line(map_texts(turn, self._rewritten, self.roles), self.roles)

    def _rewritten(self, text: str) -> str:
        edits = [
            (start, stop, layout)
            for start, stop, raw, same in _blocks_of_json(str.__str__(text))
            if (layout := self.layouts.get(same, raw)) != raw
        ]
        return edited(text, edits) if edits else text


def _blocks_of_json(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Start, stop, text, and text on one line of each JSON that is all of a code block, which is not indented."""
    if "```" not in text and "~~~" not in text:
        return
    for fence, close in fenced_ranges(text):
        first = text.find("\n", fence, close) + 1
        if not first or text[fence] not in "`~" or close - first > _LONGEST:
            continue
        start = first + len(text[first:close]) - len(text[first:close].lstrip())
        raw = text[start:close].rstrip()
        found = next(json_in(raw), None) if raw[:1] in ("{", "[") else None
        if found is not None and (found.start, found.stop) == (0, len(raw)):
            yield start, start + len(raw), raw, one_line_of(raw)
