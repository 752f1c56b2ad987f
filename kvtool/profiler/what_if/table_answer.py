"""What the table comes to, in words: what to change first, by how much it helps, and what to run."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.results.documents.what_if import MissingRow, SweepRow
from kvtool.text.terminal.numbers import percent

_WORTH = 0.01
"""Part of today's computed tokens that a change must save to be named first."""


def answer(rows: Sequence[SweepRow], missing: Sequence[MissingRow], *, prompts_hint: str) -> list[str]:
    """`rows` as the table has them, today's first; `prompts_hint` says where prompts are changed."""
    today, *others = rows
    can = [row for row in others if row.sure != "bound" and _saved(row, today) >= _WORTH]
    if not can:
        return [_nothing(rows), *_ask_for(missing)]
    best = can[0]
    free = next((row for row in can if not row.more_hardware), None)
    first = free or best
    without = ", without more hardware" if free is not None and not all(not row.more_hardware for row in can) else ""
    lines = [f"Change first{without}: {first.does}. {_gain(first, today)}"]
    if first.kind == "prompts" and prompts_hint:
        lines[0] += f" {prompts_hint}"
    if best is not first:
        lines.append(f"With more hardware: {best.does}. {_gain(best, today)}")
    if first.command is not None:
        lines.append(f"Run: {first.command}")
    return [*lines, *_ask_for(missing)]


def _gain(row: SweepRow, today: SweepRow) -> str:
    return (
        f"It computes {percent(_saved(row, today))} fewer prompt tokens: "
        f"hit rate {percent(today.hit_rate)} -> {percent(row.hit_rate)}."
    )


def _saved(row: SweepRow, today: SweepRow) -> float:
    """Part of today's computed tokens that a row does not compute; negative where it computes more."""
    before = today.computed_tokens or 0
    return (before - (row.computed_tokens or 0)) / before if before else 0.0


def _nothing(rows: Sequence[SweepRow]) -> str:
    today, *others = rows
    told = "Nothing that was tried computes 1 % fewer prompt tokens"
    bound = next((row for row in others if row.kind == "capacity" and row.sure == "bound"), None)
    if bound is None:
        return f"{told}: the hit rate is {percent(today.hit_rate)}."
    if bound.computed_tokens == today.computed_tokens:
        return f"{told}: the hit rate of {percent(today.hit_rate)} is all that these prompts have in any cache."
    return f"{told}: the hit rate is {percent(today.hit_rate)}, in a cache without limit {percent(bound.hit_rate)}."


def _ask_for(missing: Sequence[MissingRow]) -> list[str]:
    """What to say for the rows that matter most of those that are missing."""
    lack = next((row for row in missing if row.change == "cache x 2"), None)
    return [] if lack is None else [f"Not compared: {lack.change}: {lack.why}."]
