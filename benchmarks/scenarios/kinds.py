"""All kinds of planted prompts, by name."""

from __future__ import annotations

import random

from scenarios import form, hidden, repeated, scripts, structure, traps
from scenarios.case import Case

KINDS = {
    "structure": structure.MAKERS,
    "scripts": scripts.MAKERS,
    "repeated": repeated.MAKERS,
    "form": form.MAKERS,
    "hidden": hidden.MAKERS,
    "traps": traps.MAKERS,
}


def case_of(kind: str, seed: int) -> Case:
    """The case of a seed: its makers take turns, everything else is drawn."""
    makers = KINDS[kind]
    return makers[seed % len(makers)](random.Random(f"{kind}/{seed}"), seed)
