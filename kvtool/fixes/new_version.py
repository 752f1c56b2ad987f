"""Text that changed once, for all requests that follow: a new version of a prompt, which costs a first use whatever is done."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.diagnose.causes import SlotCause
from kvtool.diagnose.codes.kv107 import OPTIONAL
from kvtool.diagnose.codes.kv201 import NUMBER, OTHER
from kvtool.fixes.turn_texts import role_of_part, texts_of
from kvtool.workload.turn import Turn

NEW_VERSION = "new-version"
"""How the key of the advice for it begins, up to a colon."""
COSTS_ONCE = "leave it: it changed once and stays, as in a new version of the prompt, and what that costs is paid once"

_UNNAMED = (OPTIONAL, OTHER, NUMBER)
"""Kinds that say no more than that text differs: a date that changed once changes again."""
_LEAST = 4
"""Samples that have to follow each other on either side of the change."""


def changed_for_good(cause: SlotCause, samples: Sequence[Turn]) -> bool:
    """Whether a text came, or went, in the midst of the samples, and no request after it is like those before."""
    if cause.seen != 1 or cause.kind not in _UNNAMED:
        return False
    value = next((value for value in cause.values.examples if value.strip()), "")
    if not value:
        return False
    role = role_of_part(cause.slot.part)
    has = [any(value in at.text for at in texts_of(turn) if at.role == role) for turn in samples]
    changes = [at for at in range(1, len(has)) if has[at] != has[at - 1]]
    return len(changes) == 1 and _LEAST <= changes[0] <= len(has) - _LEAST
