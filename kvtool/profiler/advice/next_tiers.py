"""Which tiers the next step of advice needs: content is changed (P3) only where nothing that keeps it wins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from kvtool.fixes.fix import ALL_TIERS, SAFE_TIERS, Tier
from kvtool.profiler.advice.advisor import Advice

_STEPS: tuple[frozenset[Tier], ...] = (ALL_TIERS - {"P3"}, ALL_TIERS)


def tiers_beyond(allowed: Collection[Tier]) -> Iterator[frozenset[Tier]]:
    """Yield what may be allowed beyond `allowed`, step by step."""
    return (tiers for tiers in _STEPS if not tiers <= set(allowed))


def next_advice(advised: Callable[[Collection[Tier]], Advice], allowed: Collection[Tier] = ()) -> Advice:
    """Return the advice with the first tiers beyond `allowed` that win anything; no more is allowed than what is kept needs.

    A fix that is tried on the way and not kept may lead to other fixes.
    """
    advice = advised(ALL_TIERS)  # it shows moves that win once content is changed
    for tiers in tiers_beyond(allowed):
        advice = advised(tiers)
        needed: frozenset[Tier] = frozenset((*SAFE_TIERS, *allowed, *(step.fix.tier for step in advice.steps)))
        if not advice.tried <= needed:
            advice = advised(needed)
        if any(step.fix.tier not in allowed for step in advice.steps):
            break
    return advice
