"""Which edits of a workload's files are planned: within some tiers, in a first round, and those that need consent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os.path import realpath

from kvtool.fixes.fix import ALL_TIERS, SAFE_TIERS, Tier
from kvtool.profiler.advice.advisor import Advice, KeptFix
from kvtool.profiler.optimize.disk_lines import disk_place
from kvtool.profiler.optimize.edited_files import Changed, Done, Optimized
from kvtool.profiler.optimize.edited_runs import EditedRuns, SourceRuns
from kvtool.profiler.optimize.optimizer import Choose, Optimizer, has_step
from kvtool.workload.logs.logs import LogSource


def optimize(
    runs: EditedRuns, tiers: Collection[Tier], *, choose: Choose | None = None, given: Sequence[Changed] = ()
) -> Optimized:
    """Return the edits that win within the tiers, proven. Raises TrialInterruptedError where Ctrl-C came in between.

    `given` are files that are to be changed already; they are among the files of the result.
    """
    tried: set[Tier] = set()

    def advise(of: SourceRuns, without: frozenset[str]) -> Mapping[str, Sequence[KeptFix]]:
        result = of.explained()
        advice = of.advised(tiers, without)
        tried.update(advice.tried)
        return advice.kept if choose is None else choose(of.source, result, advice)

    if not given and set(tiers) < ALL_TIERS:
        runs.first.advised(
            ALL_TIERS
        )  # asked for anyway, for what needs consent; it shows moves that win once these are made
    first = runs.with_files({realpath(file.path): file.after for file in given}) if given else runs.first
    originals = {realpath(file.path): (file.path, file.before) for file in given}
    found = Optimizer(runs, advise, originals).run(first, advise(first, frozenset()))
    return replace(found, tried=frozenset(tried))


def plan_edits(runs: EditedRuns) -> tuple[Optimized, Advice]:
    """Return what `kvtool optimize` does to the files on the advice of all tiers, where only those are allowed that it needs.

    The advice that was followed comes with it: another one where a fix that is not made was tried on the way. Raises
    TrialInterruptedError.
    """
    tiers: Collection[Tier] = ALL_TIERS
    later: set[str] = set()
    while True:
        advice = runs.first.advised(tiers)
        found = optimize(runs, tiers)
        needed = {*SAFE_TIERS, *(each.step.fix.tier for each in found.edited if has_step(advice.steps, each.step))}
        if found.tried <= needed:
            return replace(found, later=frozenset(later)), advice
        later.update(each.step.fix.key for each in found.edited)
        tiers = needed


def first_edits(runs: EditedRuns) -> tuple[Optimized, Advice]:
    """Return the first round of what `kvtool optimize` does with all tiers allowed, and the advice that was followed.

    What the edited files have left to win is not asked: that takes most of the time of `plan_edits`. Raises
    TrialInterruptedError.
    """
    first = runs.first

    def advise(of: SourceRuns, without: frozenset[str]) -> Mapping[str, Sequence[KeptFix]]:
        return of.advised(ALL_TIERS, without).kept

    advice = first.advised(ALL_TIERS)
    found = Optimizer(runs, advise, {}).first_round(first, advice.kept)
    kept: dict[str, list[KeptFix]] = {}
    for each in found.edited:
        kept.setdefault(each.step.cause.group, []).append(each.step)
    return found, replace(advice, kept=kept)


def needing_consent(runs: EditedRuns, tiers: Collection[Tier]) -> tuple[list[Done], list[Done]]:
    """Return what would be done, were all tiers allowed, with what the files hit then; and what no edit makes in any case.

    Of logs, which nobody edits, what would win. Raises TrialInterruptedError.
    """
    if set(tiers) >= ALL_TIERS:
        return [], []
    if isinstance(runs.first.source, LogSource):
        steps = [step for step in runs.first.advised(ALL_TIERS).steps if step.fix.tier not in tiers]
        return [Done(step, "", step.before, step.after, disk_place(step.cause, {})) for step in steps], []
    found, _ = plan_edits(runs)
    asked = [each for each in found.done if each.step.fix.tier not in tiers]
    if "P2" not in tiers and not any(each.step.fix.tier == "P2" and not each.reason for each in asked):
        # A change of content may win more than a move; it is asked for only where no move wins.
        moves = [each for each in optimize(runs, (*SAFE_TIERS, "P2")).done if each.step.fix.tier == "P2"]
        asked = moves if any(not each.reason for each in moves) else asked
    return [each for each in asked if not each.reason], [each for each in asked if each.reason]
