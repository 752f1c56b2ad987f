"""Fixes that win only together with other cache marks, as advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix
from kvtool.profiler.reported.cheapest_marks import CheaperMarks, MarkTrial
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.money import marks_in_words

Explained = Callable[[Sequence[Fix]], RunResult]
"""Runs with fixes, for the causes that are left."""


def with_marked_fixes(advice: Advice, trial: MarkTrial, explained: Explained) -> tuple[Advice, CheaperMarks | None]:
    """Return the advice with what was tried in vain and wins with other marks, in groups in which nothing is kept, and the marks.

    The steps say which marks these are, and the run that proves all steps has them. The advice itself where nothing wins so.
    """
    base = trial.after(advice.fixes) if advice.fixes else trial
    found = base.cheaper_with(advice.idle) if base is not None and advice.idle else None
    if base is None or found is None:
        return advice, None
    marks, fixes = found
    before = {group.name: group.hit_rate for group in base.result.ledger.totals()}
    after = {group.name: group.hit_rate for group in marks.result.ledger.totals()}
    kept = {name: list(steps) for name, steps in advice.kept.items()}
    for fix in fixes:
        if fix.cause is not None:
            name = fix.cause.group
            told = replace(fix, what=f"{fix.what}; then {marks_in_words(marks.marks)}")
            kept.setdefault(name, []).append(
                KeptFix(told, fix.cause, before[name], after[name], after[name], after[name])
            )
    won = {step.cause.slot for name in kept for step in kept[name]}
    stuck = [each for each in advice.stuck if each.cause.slot not in won]
    proof = explained([*advice.fixes, *fixes, *marks.plan_fixes])
    return replace(advice, kept=kept, stuck=stuck, proof=proof), marks
