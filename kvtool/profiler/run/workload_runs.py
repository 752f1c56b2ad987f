"""The runs of one workload: the one that a report is about, and those that try something else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kvtool.accounting.plan import Plan
from kvtool.accounting.views.collector import ViewBook
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.fixes.fix import Fix, combined
from kvtool.measure.request_sample import RequestSample
from kvtool.profiler.run.purposes import cause_run, counted_run, explained_run
from kvtool.profiler.run.run_books import HitBook, Hits, ProvidersBill
from kvtool.profiler.run.run_loop import RunLoop
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.choices import By
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.kept_requests import KeptRequests, KeptTrace
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Source

if TYPE_CHECKING:
    from kvtool.accounting.event_writer import EventWriter
    from kvtool.accounting.prices.money_book import MoneyBook
    from kvtool.accounting.prices.price_table import PriceTable
    from kvtool.profiler.log_part import LogPart
    from kvtool.profiler.reported.event_comparison import EventComparison
    from kvtool.workload.yaml.yaml_source import YamlSource

Purpose = Callable[[RunSetup], RunLoop]
"""Maker of a run: one of `purposes`."""


class WorkloadRuns:
    """Run a workload repeatedly, each time for a purpose; keep its requests if that saves reading them again."""

    def __init__(
        self,
        source: Source,
        renderer: Renderer,
        plan: Plan,
        *,
        progress: Progress,
        jobs: int | None,
        prices: Callable[[], PriceTable] | None,
        tries: bool,
    ) -> None:
        """Create the runs. `jobs` processes may work on one, None: as many as pay. `prices` are those of tokens. `tries`: fixes
        will be tried."""
        self.source = source
        self.renderer = renderer
        self.plan = plan
        self.progress = progress
        self.kept_requests: KeptRequests | None = None
        """The requests of a log, as the reported run took them."""
        self._kept_trace: tuple[KeptTrace, TraceNumbers] | None = None
        """The same of a trace."""
        self._jobs = jobs
        self._prices = prices
        self._tries = tries
        self._requests: int | None = None
        """Number of requests of a whole run, after the first one."""

    def run(
        self,
        stage: str,
        plan: Plan,
        purpose: Purpose = counted_run,
        *,
        fixes: Sequence[Fix] = (),
        part: LogPart | None = None,
        by_number: bool = True,
    ) -> RunResult:
        """Run the workload, or a `part` of it, with these fixes. `by_number`: blocks of traces may be numbered."""
        self.begin(stage, part)
        source: Source = self.source
        renderer, numbers = self.renderer, None
        if plan.traced and by_number:
            numbers = TraceNumbers()
            if fixes and self._kept_trace is not None:
                source, numbers = self._kept_trace
        elif part is not None:
            source = part.source
        elif fixes and self.kept_requests is not None:
            source = self.kept_requests
        for fix in fixes:
            plan = plan if fix.plan is None else fix.plan(plan)
            source = source if fix.source is None else fix.source(source)
            renderer = renderer if fix.renderer is None else fix.renderer(renderer)
        maker = JobMaker(renderer, seed=plan.seed, numbers=numbers, answers=not plan.by_trace_study)
        rewrite = combined(fixes) if fixes else None
        result = purpose(RunSetup(plan, maker, self.progress, rewrite=rewrite, jobs=self._jobs)).run(source)
        if (money := money_of(result)) is not None and isinstance(self.source, LogSource):
            money.store(self.source.outcome.stored)
        if not result.partial and part is None:
            self._requests = self.progress.done
        return result

    def reported(
        self,
        *,
        relaxed: Sequence[tuple[str, Hits]],
        per_request: bool,
        by: By | None,
        views: bool,
        beside: EventComparison | None,
        events: EventWriter | None,
        sample: RequestSample | None,
    ) -> RunResult:
        """Make the run of the report, and keep its requests for runs with changes; see `explained_run`.

        `views`: the data of charts is collected, too.
        """
        plan = self.plan
        traced = plan.traced and events is None
        of_log = isinstance(self.source, LogSource)
        keep: KeptTrace | KeptRequests | None = None
        if traced and self._may_try:
            keep = KeptTrace()
        elif not traced and self._tries:
            keep = KeptRequests()
        numbers: TraceNumbers | None = None

        def purpose(setup: RunSetup) -> RunLoop:
            nonlocal numbers
            numbers = setup.maker.numbers
            return explained_run(
                setup,
                relaxed=relaxed,
                per_request=per_request,
                by=by,
                views=ViewBook(plan.base_block, whole_prompt_may_hit=plan.by_trace_study, details=views),
                decode=True,
                money=self.money_book(),
                beside=beside,
                keep=keep,
                events=events,
                sample=sample,
                bill=ProvidersBill(self._prices) if self._prices is not None and of_log and not plan.hosted else None,
                reports_usage=of_log,
                lays_out=self._tries,
            )

        result = self.run("accounting", plan, purpose, by_number=traced)
        if not result.partial and keep is not None and keep.complete:
            if isinstance(keep, KeptRequests):
                self.kept_requests = keep
            elif numbers is not None:
                self._kept_trace = keep, numbers
        return result

    def priced(self, stage: str, fixes: Sequence[Fix]) -> RunResult:
        """Run with fixes; sum the costs of requests, and predict when they are answered."""
        purpose = partial(counted_run, money=self.money_book(), timed=True)
        return self.run(stage, self.plan, purpose, fixes=fixes)

    def relaxed_hits(self) -> list[tuple[str, Hits]]:
        """Run without each limit of the engine, for concurrent requests; return the hits by the fate that the limit explains."""
        from kvtool.accounting.caches.relaxed_configs import full_attention, relax_configs

        plan = self.plan
        found: list[tuple[str, Hits]] = []
        for fate, engine in [*relax_configs(plan.engine), *full_attention(plan.engine, plan.base_block)]:
            stage = "unlimited cache" if fate == "evicted" else f"without the limit {fate}"
            run = self.run(stage, replace(plan, engine=engine), partial(counted_run, keep_hits=True))
            if run.partial:
                raise KeyboardInterrupt  # there is nothing to show yet
            found.append((fate, run.book(HitBook).hits))
        return found

    def tried_in_part(self, part: LogPart, fixes: Sequence[Fix], explain: Collection[str]) -> RunResult:
        """Make one pass over a part with fixes; its causes, of groups to `explain`, count for all of the log."""
        purpose = partial(cause_run, groups=explain) if explain else counted_run
        result = self.run("trying fixes in a part", self.plan, purpose, fixes=fixes, part=part)
        for group, weight in part.weights.items():
            result.causes.scale(group, weight)
        result.forget_requests()
        return result

    def tried(
        self, fixes: Sequence[Fix], explain: Collection[str], *, one_in: Mapping[str, int] | None = None
    ) -> RunResult:
        """Make one pass with fixes; return totals, and the causes of groups to `explain`; `one_in` limits the search to a part of
        large ones."""
        money = self.money_book()
        counted = partial(counted_run, money=money)
        purpose = partial(cause_run, groups=explain, one_in=one_in, money=money) if explain else counted
        result = self.run("trying fixes", self.plan, purpose, fixes=fixes)
        result.forget_requests()
        return result

    @property
    def _may_try(self) -> bool:
        """Return whether the run of a trace may lose enough to be worth another run."""
        return self._tries and (self.plan.engine.num_blocks is not None or self.plan.cache is not None)

    def money_book(self) -> MoneyBook | None:
        """Make the sums of requests' costs; None if no provider's rules apply."""
        if self._prices is None or not self.plan.hosted:
            return None
        from kvtool.accounting.prices.money_book import MoneyBook

        return MoneyBook(self._prices())

    def begin(self, stage: str, part: LogPart | None = None) -> None:
        """Tell the progress the total: as many requests as in the last pass, or in the workload, or an estimate from the log's
        bytes."""
        source, limit = self.source, self.plan.limit
        total = self._requests if part is None else part.requests
        if total is None and (workload := workload_file(source)) is not None and workload.requests is not None:
            total = workload.requests if limit is None else min(workload.requests, limit)
        self.progress.stage(stage, total, self.share_read if isinstance(source, LogSource) else None)

    def share_read(self) -> float | None:
        """Return the read share of a log that is read for the first time: by its bytes, or by the wanted requests."""
        assert isinstance(self.source, LogSource)
        share, limit = self.source.share_read(), self.plan.limit
        return share if limit is None else max(share or 0.0, self.progress.done / limit)


def workload_file(source: Source) -> YamlSource | None:
    """Return the source as that of a workload file; None where it is another, and nothing is loaded for a log's sake."""
    if isinstance(source, LogSource):
        return None
    from kvtool.workload.yaml.yaml_source import YamlSource

    return source if isinstance(source, YamlSource) else None
