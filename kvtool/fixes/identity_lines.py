"""Lines that say nothing but the id of the request, its trace or its session."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.diagnose.values.variable_names import request_names
from kvtool.fixes.forms.coarsen import ONLY_A_LABEL
from kvtool.fixes.moves.move_target import MoveTarget, places_at
from kvtool.fixes.turn_texts import texts_of
from kvtool.text.traced import Traced, line_around
from kvtool.workload.turn import Turn

_WORD = re.compile(r"[^\W\d_]+")


def identifies_request(samples: Sequence[Turn], target: MoveTarget) -> bool:
    """Return whether each line with the value is a label that names the request itself, and no other text has words of the label.

    Only then may the value be removed: no sentence lacks it, and nothing refers to it. What the value looks like proves nothing.
    """
    found = False
    for turn in samples:
        names: set[str] = set()
        others: list[str] = []
        for at in texts_of(turn):
            text, end = str.__str__(at.text), 0
            for start, stop in sorted(places_at(Traced(at.text), target)):
                low, high = line_around(text, start)[0], line_around(text, max(stop - 1, start))[1]
                label = f"{text[low:start]} {text[stop:high]}"
                if low < end or not ONLY_A_LABEL.fullmatch(label.strip()) or not (named := request_names(label)):
                    return False
                others.append(text[end:low])
                names |= named
                end = high
            others.append(text[end:])
        found = found or bool(names)
        if names and any(word.lower() in names for text in others for word in _WORD.findall(text)):
            return False
    return found
