"""The outcome of an optimization: the document, and the texts and the order that can be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvtool.diagnose.findings import logged_cause
from kvtool.fixes.fix import Fix, Tier
from kvtool.profiler.advice.advisor import KeptFix
from kvtool.profiler.advice.trials import steady_first, total_rate
from kvtool.profiler.opening import Opened
from kvtool.profiler.optimize.breakpoint_plan import MINIMUM, PRICES, plan_breakpoints
from kvtool.profiler.optimize.edited_files import Changed, Done, Optimized
from kvtool.profiler.optimize.log_order import LogOrder, request_order
from kvtool.profiler.optimize.optimizer import EditedRuns, needing_consent, optimize
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.documents.optimize import (
    Breakpoints,
    DoneStep,
    EditedLog,
    GroupRates,
    OptimizeDocument,
    ReportedDifference,
    RequestOrder,
    Step,
    StepRates,
)
from kvtool.results.documents.parts import BeforeAfter
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import LogSource

if TYPE_CHECKING:
    from kvtool.profiler.optimize.optimized_log import OptimizedLog
    from kvtool.profiler.optimize.sdk_snippet import Sdk
    from kvtool.profiler.reported.cheapest_marks import CheaperMarks


@dataclass(frozen=True, slots=True)
class OptimizeOutcome:
    """`files` are those that change, `order` is an order of a log's requests that wins (None: none does), and `log` is the log
    with the fixes in its records. `hosted`: a provider's rules were followed, not those of an own server."""

    document: OptimizeDocument
    files: Sequence[Changed]
    order: LogOrder | None
    log: OptimizedLog | None = None
    sdk: Sdk | None = None
    hosted: bool = False

    def written(self, *, undo: str | None, output: str | None) -> OptimizeOutcome:
        """Return the outcome with the places of the undo patch and of the log in its new order; None where
        they were not written.
        """
        return replace(self, document=self.document.model_copy(update={"undo": undo, "output": output}))


def optimized(
    opened: Opened, tiers: Sequence[Tier], progress: Progress, *, breakpoints: int | None = None
) -> OptimizeOutcome:
    """Return what wins within the tiers, proven, and what would win beyond them; with at most so many `breakpoints` in each group.

    Raises TrialInterruptedError where Ctrl-C came in between.
    """
    runs = EditedRuns(opened, progress)
    found = optimize(runs, tiers)
    forbidden, left = needing_consent(runs, tiers)
    order = request_order(opened, progress, found.before)
    log, marks, allowed = _log(opened, [each.step for each in found.done], [each.step for each in forbidden], progress)
    if log is not None and log.after is not None and allowed:
        found = replace(found, after=log.after)
    groups = _groups(found)
    sdk = _sdk(opened, log)
    document = OptimizeDocument(
        schema="kvtool.optimize/1",
        input=opened.name,
        tiers=list(tiers),
        block_size=opened.planned.plan.engine.block_size,
        requests=sum(group.requests for group in groups),
        hit_rate=_rates(*found.rates),
        groups=groups,
        steps=[_done(done) for done in [*found.done, *left]],
        needs_consent=[_step(done) for done in forbidden],
        request_order=None if order is None else RequestOrder(fix=order.fix.what, hit_rate=order.hit_rate),
        files=[changed.path for changed in found.files],
        edited_log=None if log is None else _edited_log(log, found.before, sdk, allowed=allowed),
        marks=[] if log is None or marks is None else marks.marks,
        undo=None,
        output=None,
        breakpoints=None if breakpoints is None else _breakpoints(opened, found.after, breakpoints),
    )
    return OptimizeOutcome(document, found.files, order, log, sdk, hosted=opened.planned.plan.hosted)


def _log(
    opened: Opened, steps: Sequence[KeptFix], forbidden: Sequence[KeptFix], progress: Progress
) -> tuple[OptimizedLog | None, CheaperMarks | None, bool]:
    """Return the log with the steps, else with those that need consent (False), and with the cheapest cache marks on top."""
    if not isinstance(opened.source, LogSource):
        return None, None, True
    from kvtool.profiler.optimize.log_marks import cheaper_marks
    from kvtool.profiler.optimize.optimized_log import edit_log

    tried = [(fixes, allowed) for fixes, allowed in ((_fixes(steps), True), (_fixes(forbidden), False)) if fixes]
    for fixes, allowed in tried or [([], True)]:
        marks = cheaper_marks(opened, fixes, progress)
        marked = None if marks is None else edit_log(opened, [*fixes, marks.fix], progress)
        if marked is not None and not marked.left:
            return marked, marks, allowed
        log = edit_log(opened, fixes, progress)  # a mark that has no place in a record keeps no other fix from it
        if log is not None and (marked is None or log.changed > marked.changed):
            return log, None, allowed
        if marked is not None:
            return marked, marks, allowed
    return None, None, True


def _fixes(steps: Iterable[KeptFix]) -> list[Fix]:
    """Return the fixes of steps in the order in which trials make them."""
    by_group: dict[str, list[Fix]] = {}
    for step in steps:
        by_group.setdefault(step.cause.group, []).append(step.fix)
    return [fix for fixes in by_group.values() for fix in steady_first(fixes)]


def _sdk(opened: Opened, log: OptimizedLog | None) -> Sdk | None:
    if log is None or log.example is None or not isinstance(opened.source, LogSource):
        return None
    from kvtool.profiler.optimize.sdk_snippet import sdk_of

    return sdk_of(log.example, opened.source.format_names)


def _edited_log(log: OptimizedLog, before: RunResult, sdk: Sdk | None, *, allowed: bool) -> EditedLog:
    from kvtool.profiler.optimize.request_diff import changed_places
    from kvtool.profiler.reported.rule_agreement import rule_differences

    return EditedLog(
        allowed=allowed,
        requests=log.changed,
        left_as_they_are=dict(log.left),
        hit_rate=_rates(total_rate(before), total_rate(log.after or before)),
        cost=log.cost(before),
        estimate=[
            ReportedDifference(group=name, reported=each.reported, predicted=each.predicted)
            for name, each in rule_differences(before).items()
        ],
        sdk=sdk,
        places=[] if log.example is None else changed_places(log.example),
    )


def _groups(found: Optimized) -> list[GroupRates]:
    pairs = zip(found.before.ledger.totals(), found.after.ledger.totals(), strict=True)
    return [
        GroupRates(name=group.name, requests=group.requests, hit_rate=_rates(group.hit_rate, other.hit_rate))
        for group, other in pairs
    ]


def _rates(before: float, after: float) -> BeforeAfter:
    return BeforeAfter(before=before, after=after)


def _step(done: Done) -> Step:
    step, (path, line, column) = replace(done.step, before=done.before, after=done.rate), done.place
    return Step(
        code=step.fix.code,
        tier=step.fix.tier,
        group=step.cause.group,
        path=path or None,
        line=line or None,
        column=column or None,
        place="" if (logged := logged_cause(step.cause)) is None or not logged.record else logged.told,
        fix=step.fix.what,
        warnings=list(step.fix.warnings),
        hit_rate=StepRates.taken_from(step),
    )


def _done(done: Done) -> DoneStep:
    return DoneStep(
        **dict(_step(replace(done, before=done.step.before, rate=done.step.after))),
        edited=not done.reason,
        reason=done.reason or None,
        files_hit_rate=_rates(done.before, done.rate),
    )


def _breakpoints(opened: Opened, result: RunResult, most: int) -> Breakpoints:
    tokenizer, samples = opened.renderer.tokenizer, result.book(SampleBook)
    plans = [
        plan_breakpoints(each.name, samples.of_group(each.name), tokenizer, most) for each in result.ledger.totals()
    ]
    return Breakpoints(
        computed=True, prices=PRICES, minimum_tokens=MINIMUM, groups=[plan for plan in plans if plan is not None]
    )
