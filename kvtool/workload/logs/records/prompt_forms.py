"""Forms of prompts that begin the same, distinguished one prompt at a time, in bounded memory.

Two beginnings are of one form where they share at least half of their runs of three words (the cosine of the sets of runs). Digits
count for nothing, so that a clock or an id in a prompt leaves it what it is; nor does how a letter is encoded.
"""

from __future__ import annotations

import re
from math import sqrt

from kvtool.text.look_alike import skeleton
from kvtool.workload.turn import Turn

WHOLE = 4_000
"""Characters of a beginning that are looked at."""
HEADS = (1_000, 400, 120)
"""The same where what comes after differs from request to request, as documents do."""
_ALIKE = 0.5  # of the cosine, as above
_RUN = 3  # words
_MOST_KEPT = 1_024
"""Beginnings whose form is remembered."""
_PROBES, _PROBE, _FOUND = 12, 32, 9
"""Pieces of the first beginning of a form, their characters, and how many of them another of the form has: then it shares much more
than half of its runs, and these need not be counted."""
_SYSTEM = ("system", "developer")
# Words; in scripts that leave no spaces between them, characters.
_WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")

Run = tuple[str, ...]


class PromptForms:
    """Numbers the forms of beginnings from 0, in the order in which they first come."""

    def __init__(self, window: int, most: int) -> None:
        """`window` characters of each are looked at; no more than `most` forms are distinguished."""
        self._window = window
        self._most = most
        self._with_run: dict[Run, list[int]] = {}
        """The forms whose first beginning has a run."""
        self._sizes: list[float] = []
        self._probes: list[tuple[int, list[str]]] = []
        """Length of each form's first beginning, and pieces of it."""
        self._known: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def form_of(self, text: str) -> int | None:
        """Return the number of its form; None where it is another than the `most` that are known."""
        start = str.__str__(text)[: self._window]
        if start in self._known:
            return self._known[start]
        head = skeleton(start)
        found = self._probed(head)
        if found is None:
            found = self._nearest(head)
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[start] = found
        return found

    def _probed(self, head: str) -> int | None:
        """Return the first form of which it has nearly all pieces and about the length."""
        for form, (length, probes) in enumerate(self._probes):
            if not probes or length > 2 * len(head) or len(head) > 2 * length:
                continue
            missing = 0
            for probe in probes:
                missing += probe not in head
                if missing > _PROBES - _FOUND:
                    break
            else:
                return form
        return None

    def _nearest(self, head: str) -> int | None:
        runs = _runs(head)
        shared: dict[int, int] = {}
        for run in runs:
            for form in self._with_run.get(run, ()):
                shared[form] = shared.get(form, 0) + 1
        size = sqrt(len(runs))
        near = max(shared, key=lambda form: (shared[form] / self._sizes[form], -form), default=None)
        if near is not None and shared[near] >= _ALIKE * size * self._sizes[near]:
            return near
        if len(self._sizes) >= self._most:
            return None
        self._sizes.append(size)
        for run in runs:
            self._with_run.setdefault(run, []).append(len(self._sizes) - 1)
        step = len(head) // _PROBES
        starts = range(0, step * _PROBES, step) if step > _PROBE else ()
        self._probes.append((len(head), [head[at : at + _PROBE] for at in starts]))
        return len(self._sizes) - 1


def _runs(text: str) -> frozenset[Run]:
    words = _WORD.findall(text.lower())
    if len(words) < _RUN:
        return frozenset({tuple(words)})
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def beginning_of(turn: Turn, window: int) -> tuple[bool, str] | None:
    """Return how a request begins, and whether that is a system prompt; None for one without text."""
    if turn.text is not None:
        return False, str.__str__(turn.text)[:window]
    if not turn.messages:
        return None
    message = turn.messages[0]
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "\n".join(str.__str__(part)[:window] for part in parts if isinstance(part, str))
    return message.get("role") in _SYSTEM, (str.__str__(content)[:window] if isinstance(content, str) else "")
