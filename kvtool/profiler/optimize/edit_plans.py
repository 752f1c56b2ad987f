"""Which edits of a workload's files are planned: within some tiers, in a first round, and those that need consent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from os.path import realpath

from kvtool.fixes.fix import ALL_TIERS, SAFE_TIERS, Tier
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix
from kvtool.profiler.advice.made_steps import made_marks
from kvtool.profiler.advice.next_tiers import next_advice, tiers_beyond
from kvtool.profiler.optimize.disk_lines import disk_place
from kvtool.profiler.optimize.edited_files import Changed, Done, Optimized
from kvtool.profiler.optimize.edited_runs import EditedRuns, SourceRuns
from kvtool.profiler.optimize.missing_marks import together, with_missing_marks
from kvtool.profiler.optimize.optimizer import Optimizer
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.finding import TRIED_WITH_MARK
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.yaml_source import YamlSource

Choose = Callable[[YamlSource | LogSource, RunResult, Advice], Mapping[str, Sequence[KeptFix]]]
"""Which steps of the advice on a source that was run may be taken, by group."""


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
        if choose is not None:
            return choose(of.source, result, advice)
        return with_missing_marks(of, advice.kept, tiers, without)

    if not given and set(tiers) < ALL_TIERS:
        # Asked for anyway, for what needs consent; it shows moves that win once these are made.
        runs.first.advised(ALL_TIERS)
    first = runs.with_files({realpath(file.path): file.after for file in given}) if given else runs.first
    originals = {realpath(file.path): (file.path, file.before) for file in given}
    found = Optimizer(runs, advise, originals).run(first, advise(first, frozenset()))
    return replace(found, tried=frozenset(tried))


def plan_edits(runs: EditedRuns, allowed: Collection[Tier] = ()) -> tuple[Optimized, Advice]:
    """Return what `kvtool optimize` does once those tiers beyond `allowed` are allowed that the next edits need.

    With it comes the advice that was followed. No more is allowed than that: a fix that is tried on the way and not made may lead
    to other edits. Raises TrialInterruptedError.
    """
    every = runs.first.advised(ALL_TIERS)
    for tiers in tiers_beyond(allowed):
        found = optimize(runs, tiers)
        needed: frozenset[Tier] = frozenset((*SAFE_TIERS, *allowed, *(each.step.fix.tier for each in found.edited)))
        if not found.tried <= needed:
            tiers = needed
            found = optimize(runs, tiers)
        if any(each.step.fix.tier not in allowed for each in found.edited):
            later = frozenset(step.fix.key for step in every.steps if step.fix.tier not in tiers)
            return replace(found, later=later), _as_made(runs.first.advised(tiers), found)
    return found, _as_made(every, found)


def _as_made(advice: Advice, found: Optimized) -> Advice:
    """Return the advice with what the edits do about a cause, where no edit does what was advised first."""
    made = {(each.step.cause.group, each.step.cause.slot): each.step for each in found.edited}
    marks = made_marks(found)
    kept: dict[str, list[KeptFix]] = {}
    for name, steps in advice.kept.items():
        kept[name] = []
        for step in steps:
            other = made.get((name, step.cause.slot))
            if other is not None and TRIED_WITH_MARK in step.fix.warnings and name in marks:
                kept[name].append(together(marks[name], other))
            else:
                kept[name].append(other if other is not None and step.fix.key in found.refused else step)
    return replace(advice, kept=kept)


def first_edits(runs: EditedRuns) -> tuple[Optimized, Advice]:
    """Return the first round of what `kvtool optimize` does with all tiers allowed, and the advice that was followed.

    What the edited files have left to win is not asked: that takes most of the time of `plan_edits`. Raises
    TrialInterruptedError.
    """
    first = runs.first

    def advise(of: SourceRuns, without: frozenset[str]) -> Mapping[str, Sequence[KeptFix]]:
        return with_missing_marks(of, of.advised(ALL_TIERS, without).kept, ALL_TIERS, without)

    advice = first.advised(ALL_TIERS)
    found = Optimizer(runs, advise, {}).first_round(first, advise(first, frozenset()))
    kept: dict[str, list[KeptFix]] = {}
    for each in found.edited:
        kept.setdefault(each.step.cause.group, []).append(each.step)
    return found, replace(advice, kept=kept)


def needing_consent(runs: EditedRuns, tiers: Collection[Tier]) -> tuple[list[Done], list[Done]]:
    """Return what would be done, were the next tiers allowed that win, with what the files hit then; and what no edit makes then.

    Of logs, which nobody edits, what would win. Raises TrialInterruptedError.
    """
    if set(tiers) >= ALL_TIERS:
        return [], []
    if isinstance(runs.first.source, LogSource):
        steps = [step for step in next_advice(runs.first.advised, tiers).steps if step.fix.tier not in tiers]
        return [Done(step, "", step.before, step.after, disk_place(step.cause, {})) for step in steps], []
    found, _ = plan_edits(runs, tiers)
    asked = [each for each in found.done if each.step.fix.tier not in tiers]
    return [each for each in asked if not each.reason], [each for each in asked if each.reason]
