"""Text that changed once, for all requests that follow: a new version of a prompt, which costs a first use whatever is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvtool.diagnose.causes import SlotCause
from kvtool.diagnose.codes.kv107 import OPTIONAL
from kvtool.diagnose.codes.kv121 import KV121
from kvtool.diagnose.codes.kv201 import NUMBER, OTHER
from kvtool.diagnose.labels import MODEL
from kvtool.diagnose.values import VERSION
from kvtool.fixes.turn_texts import INSTRUCTIONS, role_of_part, texts_of
from kvtool.workload.turn import Turn

NEW_VERSION = "new-version"
"""How the key of the advice for it begins, up to a colon."""
COSTS_ONCE = "leave it: it changed once and stays, as in a new version of the prompt, and what that costs is paid once"

_UNNAMED = (OPTIONAL, OTHER, NUMBER, VERSION, MODEL)
"""Kinds that say no more than that text differs, or that say that it is a version: a date that changed once changes again."""
_LEAST = 4
"""Samples that have to follow each other on either side of the change."""


def changed_for_good(cause: SlotCause, samples: Sequence[Turn]) -> bool:
    """Whether a text came, or went, in the midst of the samples, and no request after it is like those before."""
    if cause.seen != 1 or not (cause.kind in _UNNAMED or (cause.structural and cause.kind.code != KV121.code)):
        return False
    role = role_of_part(cause.slot.part)
    if cause.structural and cause.kind is not OPTIONAL:
        return role in INSTRUCTIONS and _one_change(samples, lambda turn: _said_by(turn, role))
    value = next((value for value in cause.values.examples if value.strip()), "")
    return bool(value) and _one_change(samples, lambda turn: any(value in text for text in _said_by(turn, role)))


def _said_by(turn: Turn, role: str) -> list[str]:
    return [at.text for at in texts_of(turn) if at.role == role]


def _one_change(samples: Sequence[Turn], said: Callable[[Turn], object]) -> bool:
    """Whether what is said of each sample changes once, well inside of them."""
    told = [said(turn) for turn in samples]
    changes = [at for at in range(1, len(told)) if told[at] != told[at - 1]]
    return len(changes) == 1 and _LEAST <= changes[0] <= len(told) - _LEAST
