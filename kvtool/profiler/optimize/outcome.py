"""The outcome of an optimization: the document, and the texts and the order that can be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kvtool.accounting.misses.miss_book import MissBook
from kvtool.diagnose.findings import logged_cause
from kvtool.fixes.fix import Fix, Tier, combined
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix
from kvtool.profiler.advice.trials import TrialInterruptedError, steady_first, total_rate
from kvtool.profiler.opening import Opened
from kvtool.profiler.optimize.breakpoint_plan import MINIMUM, PRICES, plan_breakpoints
from kvtool.profiler.optimize.disk_lines import disk_place
from kvtool.profiler.optimize.edit_plans import needing_consent, optimize
from kvtool.profiler.optimize.edited_files import Changed, Done, Optimized
from kvtool.profiler.optimize.edited_runs import EditedRuns
from kvtool.profiler.optimize.log_order import LogOrder, request_order
from kvtool.profiler.optimize.missing_marks import marked_request
from kvtool.profiler.optimize.optimizer import RECORDED
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.reported.reported_use import reported_use
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.documents.optimize import (
    Breakpoints,
    DoneStep,
    EditedLog,
    GroupRates,
    NamedCache,
    OptimizeDocument,
    ReportedDifference,
    RequestOrder,
    RequestSetting,
    Step,
    StepRates,
)
from kvtool.results.documents.parts import BeforeAfter, PromptEdit
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.made_up_values import copied_from
from kvtool.workload.yaml.yaml_source import YamlSource

if TYPE_CHECKING:
    from kvtool.profiler.optimize.optimized_log import OptimizedLog
    from kvtool.profiler.optimize.request_diff import RequestEdit
    from kvtool.profiler.optimize.sdk_snippet import Sdk
    from kvtool.profiler.reported.cheapest_marks import CheaperMarks

_ANTHROPIC = "anthropic"
"""The provider whose API the code of a workload calls with its own library."""


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
    example: RequestEdit | None = None
    """A request of a workload that gets a cache breakpoint; what sends it has to change, too."""
    replaced: bool = False
    """Whether a file was there where the log was written."""

    def written(self, *, undo: str | None, output: str | None, replaced: bool = False) -> OptimizeOutcome:
        """Return the outcome with the places of the undo patch and of the log in its new order; None where
        they were not written.
        """
        document = self.document.model_copy(update={"undo": undo, "output": output})
        return replace(self, document=document, replaced=replaced)


def optimized(
    opened: Opened, tiers: Sequence[Tier], progress: Progress, *, breakpoints: int | None = None
) -> OptimizeOutcome:
    """Return what wins within the tiers, proven, and what would win beyond them; with at most so many `breakpoints` in each group.

    Raises TrialInterruptedError where Ctrl-C came in between.
    """
    runs = EditedRuns(opened, progress)
    found = optimize(runs, tiers)
    forbidden, left = needing_consent(runs, tiers)
    reports = found.before.find(MissBook)
    advises = reports is None or reports.advisable
    order = request_order(opened, progress, found.before) if advises else None
    idle = _idle(found, runs.first.advised(tiers)) if isinstance(opened.source, LogSource) else []
    edited = _log(
        opened,
        found.before,
        [each.step for each in found.done],
        [each.step for each in forbidden],
        idle,
        progress,
        marks=advises,
    )
    log, marks, allowed = edited.log, edited.marks, edited.allowed
    if log is not None and log.after is not None and allowed:
        found = replace(found, after=log.after, done=_with_added(found, edited.added, log.after))
    groups = _groups(found)
    sdk = _sdk(opened, log)
    document = OptimizeDocument(
        schema="kvtool.optimize/1",
        input=opened.name,
        tiers=list(tiers),
        block_size=opened.planned.plan.engine.block_size,
        requests=sum(group.requests for group in groups),
        first_change="" if found.done or left else _first_change(found.before),
        reported=reported_use(found.before),
        notes=opened.wrong_usage,
        calibration=None if reports is None or not reports.calibrated else reports.agreement,
        hit_rate=_rates(*found.rates),
        groups=groups,
        steps=[_done(done, opened) for done in [*found.final_steps, *left]],
        needs_consent=[_step(done, opened) for done in forbidden],
        request_order=None if order is None else RequestOrder(fix=order.fix.what, hit_rate=order.hit_rate),
        files=[changed.path for changed in found.files],
        edited_log=None if log is None else _edited_log(log, found.before, sdk, allowed=allowed),
        settings=[RequestSetting(what=each.what, warnings=list(each.warnings)) for each in edited.settings],
        named_caches=_named_caches(opened, found.before),
        marks=[] if log is None or marks is None else marks.marks,
        undo=None,
        output=None,
        breakpoints=None if breakpoints is None else _breakpoints(opened, found, edited, breakpoints),
    )
    cache, example = opened.planned.plan.cache, None if log is None else log.example
    if found.files and cache is not None and cache.provider is not None and cache.provider.name.startswith(_ANTHROPIC):
        example, sdk = marked_request(found), "Anthropic"
    return OptimizeOutcome(document, found.files, order, log, sdk, hosted=opened.planned.plan.hosted, example=example)


def _first_change(before: RunResult) -> str:
    """Return what to change first about the reported misses of a provider's log."""
    book = before.find(MissBook)
    if before.counts.hosted is None or book is None or not book.hosted:
        return ""
    from kvtool.accounting.misses.advised_change import first_change

    misses = book.misses()
    return "" if misses is None else first_change(misses)


@dataclass(frozen=True, slots=True)
class _EditedLog:
    """The log with fixes, with the cheapest marks on top of them, and with the steps that win only with these; `allowed`: none of
    them needs consent."""

    log: OptimizedLog | None = None
    marks: CheaperMarks | None = None
    allowed: bool = True
    added: Sequence[KeptFix] = ()
    fixes: Sequence[Fix] = ()
    settings: Sequence[Fix] = ()


def _log(
    opened: Opened,
    before: RunResult,
    steps: Sequence[KeptFix],
    forbidden: Sequence[KeptFix],
    idle: Sequence[Sequence[KeptFix]],
    progress: Progress,
    *,
    marks: bool,
) -> _EditedLog:
    """Return the log with the steps, else with those that need consent, and with the cheapest cache `marks` on top, if wanted.

    `idle` are the fixes by cause that win nothing with the marks that the log has.
    """
    if not isinstance(opened.source, LogSource):
        return _EditedLog()
    from kvtool.profiler.optimize.optimized_log import edit_log
    from kvtool.profiler.reported.cheapest_marks import MarkTrial
    from kvtool.profiler.reported.cheapest_settings import cheapest_trial

    again = partial(opened.profiler(ReportOptions(), progress).runs.priced, "pricing cache breakpoints")
    samples = before.find(SampleBook)
    tried = [(chain, allowed) for chain, allowed in ((steps, True), (forbidden, False)) if chain]
    for chain, allowed in tried or [((), True)]:
        fixes, cheaper, settings, added = _fixes(chain), None, list[Fix](), list[KeptFix]()
        if marks and opened.planned.plan.hosted:
            run = again(fixes)
            first = MarkTrial.of(run, again, fixes, samples)
            by_cause = [[each.fix for each in kept] for kept in idle] if allowed else []
            trial = None if first is None else cheapest_trial(first, by_cause)
            if run.partial:
                raise TrialInterruptedError
            if trial is not None:
                cheaper, settings = trial.cheaper, trial.settings
                added = [each for kept in idle for each in kept if any(each.fix is fix for fix in trial.added)]
        best = _EditedLog()
        # What has no place in a record keeps no other fix from it: then fewer changes are made in more requests.
        ways = [(added, settings, cheaper), ([], settings, None), ([], (), None)]
        for more, set_so, marked in ways[0 if added or cheaper is not None else 1 if settings else 2 :]:
            fixes = _fixes([*chain, *more])
            log = edit_log(opened, [*fixes, *set_so, *([] if marked is None else [marked.fix])], progress)
            if log is not None and log.wins(before) and (best.log is None or log.changed > best.log.changed):
                best = _EditedLog(log, marked, allowed, more, fixes, set_so)
            if best.log is not None and not best.log.left:
                break
        if best.log is not None:
            return best
    return _EditedLog()


def _idle(found: Optimized, advice: Advice) -> list[list[KeptFix]]:
    """Return the fixes that were tried and won nothing, by cause, with the rates of their groups as they are."""
    rates = {group.name: group.hit_rate for group in found.before.ledger.totals()}
    return [
        [KeptFix(fix, fix.cause, *(rates[fix.cause.group],) * 4) for fix in fixes if fix.cause is not None]
        for fixes in advice.idle
    ]


def _with_added(found: Optimized, added: Sequence[KeptFix], after: RunResult) -> list[Done]:
    """Return the steps with those that win together with the marks, which no file is edited for."""
    rates = {group.name: group.hit_rate for group in after.ledger.totals()}
    more = [
        Done(
            replace(step, after=rate, alone=rate, predicted=rate),
            RECORDED,
            step.before,
            rate,
            disk_place(step.cause, {}),
        )
        for step in added
        for rate in [rates[step.cause.group]]
    ]
    return [*found.done, *more]


def _fixes(steps: Iterable[KeptFix]) -> list[Fix]:
    """Return the fixes of steps in the order in which trials make them."""
    by_group: dict[str, list[Fix]] = {}
    for step in steps:
        by_group.setdefault(step.cause.group, []).append(step.fix)
    return [fix for fixes in by_group.values() for fix in steady_first(fixes)]


def _named_caches(opened: Opened, before: RunResult) -> list[NamedCache]:
    if not isinstance(opened.source, LogSource) or not opened.planned.plan.hosted:
        return []
    from kvtool.profiler.reported.named_caches import named_caches

    return named_caches(before)


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


def edit_of(done: Done, opened: Opened) -> PromptEdit:
    """Return a step as people read it: where it is, what it does, and what to look at."""
    step, (path, line, column) = done.step, done.place
    return PromptEdit(
        code=step.fix.code,
        tier=step.fix.tier,
        group=step.cause.group,
        path=path or None,
        line=line or None,
        column=column or None,
        place="" if (logged := logged_cause(step.cause)) is None or not logged.record else logged.told,
        copied_from=_copied_from(opened, path, line),
        fix=step.fix.what,
        warnings=list(step.fix.warnings),
    )


def _step(done: Done, opened: Opened) -> Step:
    step = replace(done.step, before=done.before, after=done.rate)
    return Step(**dict(edit_of(done, opened)), hit_rate=StepRates.taken_from(step))


def _copied_from(opened: Opened, path: str, line: int) -> str | None:
    source = opened.source
    if not isinstance(source, YamlSource) or path != opened.name:
        return None
    return copied_from(source.document.source, line)


def _done(done: Done, opened: Opened) -> DoneStep:
    return DoneStep(
        **dict(_step(replace(done, before=done.step.before, rate=done.step.after), opened)),
        edited=not done.reason,
        reason=done.reason or None,
        files_hit_rate=_rates(done.before, done.rate),
    )


def _breakpoints(opened: Opened, found: Optimized, edited: _EditedLog, most: int) -> Breakpoints:
    """Return the plans for the requests as they are edited; the run of an edited log keeps no samples of its own."""
    samples, fix = found.after.find(SampleBook), None
    if samples is None:
        samples, fix = found.before.book(SampleBook), combined(edited.fixes)
    tokenizer = opened.renderer.tokenizer
    groups = []
    for total in found.after.ledger.totals():
        turns = samples.of_group(total.name)
        plan = plan_breakpoints(total.name, turns if fix is None else list(map(fix, turns)), tokenizer, most)
        groups += [] if plan is None else [plan]
    return Breakpoints(computed=True, prices=PRICES, minimum_tokens=MINIMUM, groups=groups)
