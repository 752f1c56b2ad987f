"""Text that changed once, for all requests that follow: a new version of a prompt, which costs a first use whatever is done."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import NUMBER, OTHER
from kvtool.diagnose.codes.structure.kv121 import KV121
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.values.labels import MODEL
from kvtool.diagnose.values.slot_values import VERSION
from kvtool.fixes.turn_texts import INSTRUCTIONS, role_of_part, texts_of
from kvtool.text.structure.sentences import is_sentence
from kvtool.workload.turn import Turn

NEW_VERSION = "new-version"
"""How the key of the advice for it begins, up to a colon."""
COSTS_ONCE = "no fix needed: the text changed once, like a new version of the prompt"

_UNNAMED = (OPTIONAL, OTHER, NUMBER, VERSION, MODEL)
"""Kinds that say no more than that text differs, or that say that it is a version: a date that changed once changes again."""
_OF_A_VERSION = {KV105.code: 1, KV101.code: 2, KV102.code: 2}
"""What a version may bear, too, and in how many sentences something else must have been written anew with it."""
_LEAST = 4
"""Samples that have to follow each other on either side of the change."""
_LEAST_WORDS = 4
"""Words that a sentence keeps which was written anew in part; they are most of it."""
_WORD = re.compile(r"[^\W\d_]+")


def changed_for_good(cause: SlotCause, samples: Sequence[Turn]) -> bool:
    """Return whether a text came, or went, in the midst of the samples, and no request after it is like those before."""
    if cause.seen != 1 or cause.kind.code == KV121.code:
        return False
    role = role_of_part(cause.slot.part)
    once = role in INSTRUCTIONS and _one_change(samples, lambda turn: _said_by(turn, role))
    if cause.structural and cause.kind is not OPTIONAL:
        return once
    if cause.kind not in _UNNAMED:
        least = _OF_A_VERSION.get(cause.kind.code)
        return once and least is not None and _written_anew(samples, role) >= least
    value = next((value for value in cause.values.examples if value.strip()), "")
    return bool(value) and (
        once or _one_change(samples, lambda turn: any(value in text for text in _said_by(turn, role)))
    )


def _said_by(turn: Turn, role: str) -> list[str]:
    return [str.__str__(at.text) for at in texts_of(turn) if at.role == role]


def _one_change(samples: Sequence[Turn], said: Callable[[Turn], object]) -> bool:
    """Return whether what is said of each sample changes once, well inside of them."""
    told = [said(turn) for turn in samples]
    changes = [at for at in range(1, len(told)) if told[at] != told[at - 1]]
    return len(changes) == 1 and _LEAST <= changes[0] <= len(told) - _LEAST


def _written_anew(samples: Sequence[Turn], role: str) -> int:
    """Return the sentences of which some words are others in the last sample than in the first, and most are the same ones."""
    before, after = (Counter(_lines(_said_by(turn, role))) for turn in (samples[0], samples[-1]))
    gone, came = list((before - after).elements()), list((after - before).elements())
    return sum(any(_is_edited(line, other) for other in gone) for line in came)


def _lines(texts: Sequence[str]) -> list[str]:
    return [line.strip() for text in texts for line in text.split("\n") if is_sentence(line)]


def _is_edited(line: str, other: str) -> bool:
    words, others = Counter(_WORD.findall(line)), Counter(_WORD.findall(other))
    kept = (words & others).total()
    return words != others and kept >= _LEAST_WORDS and 2 * kept >= max(words.total(), others.total())
