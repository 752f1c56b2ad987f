"""The outcome of an optimization: the document, and the texts and the order that can be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvtool.diagnose.findings import place_of
from kvtool.fixes.fix import Tier
from kvtool.profiler.advice.advisor import KeptFix
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
    GroupRates,
    OptimizeDocument,
    RequestOrder,
    Step,
    StepRates,
)
from kvtool.results.documents.parts import BeforeAfter
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import locate


@dataclass(frozen=True, slots=True)
class OptimizeOutcome:
    """`files` are those that change, `order` is an order of a log's requests that wins (None: none does)."""

    document: OptimizeDocument
    files: Sequence[Changed]
    order: LogOrder | None

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
    groups = _groups(found)
    document = OptimizeDocument(
        schema="kvtool.optimize/1",
        input=opened.name,
        tiers=list(tiers),
        block_size=opened.planned.plan.engine.block_size,
        requests=sum(group.requests for group in groups),
        hit_rate=_rates(*found.rates),
        groups=groups,
        steps=[_done(done) for done in [*found.done, *left]],
        needs_consent=[_step(step) for step in forbidden],
        request_order=None if order is None else RequestOrder(fix=order.fix.what, hit_rate=order.hit_rate),
        files=[changed.path for changed in found.files],
        undo=None,
        output=None,
        breakpoints=None if breakpoints is None else _breakpoints(opened, found.after, breakpoints),
    )
    return OptimizeOutcome(document, found.files, order)


def _groups(found: Optimized) -> list[GroupRates]:
    pairs = zip(found.before.ledger.totals(), found.after.ledger.totals(), strict=True)
    return [
        GroupRates(name=group.name, requests=group.requests, hit_rate=_rates(group.hit_rate, other.hit_rate))
        for group, other in pairs
    ]


def _rates(before: float, after: float) -> BeforeAfter:
    return BeforeAfter(before=before, after=after)


def _step(step: KeptFix) -> Step:
    path, line, column = place_of(step.cause, locate, "")
    return Step(
        code=step.fix.code,
        tier=step.fix.tier,
        group=step.cause.group,
        path=path or None,
        line=line or None,
        column=column or None,
        fix=step.fix.what,
        warnings=list(step.fix.warnings),
        hit_rate=StepRates.taken_from(step),
    )


def _done(done: Done) -> DoneStep:
    return DoneStep(
        **dict(_step(done.step)),
        edited=not done.reason,
        reason=done.reason or None,
        files_hit_rate=_rates(done.before, done.rate),
    )


def _breakpoints(opened: Opened, result: RunResult, most: int) -> Breakpoints:
    known: dict[str, int] = {}

    def count(text: str) -> int:
        if text not in known:
            known[text] = len(opened.renderer.tokenizer.encode_ids(text))
        return known[text]

    names = [group.name for group in result.ledger.totals()]
    plans = [plan_breakpoints(name, result.book(SampleBook).of_group(name), count, most) for name in names]
    return Breakpoints(
        computed=True, prices=PRICES, minimum_tokens=MINIMUM, groups=[plan for plan in plans if plan is not None]
    )
