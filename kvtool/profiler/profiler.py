"""Profile a workload: the passes that it takes, and their results put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from kvtool.accounting.event_writer import EventWriter
from kvtool.accounting.ledger.totals import GroupTotals, TokenTotals
from kvtool.accounting.metrics import Metrics
from kvtool.accounting.plan import Plan
from kvtool.accounting.views.collector import ViewBook
from kvtool.diagnose.finding_cost import by_cost
from kvtool.diagnose.findings import Locate, in_their_files
from kvtool.diagnose.run_findings import observable_findings, run_findings, sensitive_findings
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.config import EngineConfig
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import ALL_TIERS, Fix, Tier, combined
from kvtool.measure.engine_extra import need_engine, not_measured
from kvtool.measure.measure_options import MeasureOptions
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.cause_sample import one_in
from kvtool.profiler.counted_once import check_counted_once, with_causes
from kvtool.profiler.document import Measurements, made_report, with_measurements
from kvtool.profiler.fix_gains import group_causes
from kvtool.profiler.left_out import left_out
from kvtool.profiler.log_part import LogPart, can_be_parted
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.passes import Hits, Pass, PassResult
from kvtool.profiler.reported.money_parts import MoneyTold
from kvtool.profiler.sticky_sessions import sticky_told
from kvtool.profiler.unexplained_losses import check_nothing_hidden, with_the_rest
from kvtool.results.choices import By
from kvtool.results.finding import Finding
from kvtool.results.money import GpuMoney
from kvtool.results.report import KvCacheDtype, Report, Totals
from kvtool.results.run_times import Decode
from kvtool.results.views import Timeline
from kvtool.text.terminal.interrupts import uninterrupted
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.kept_requests import KeptRequests
from kvtool.workload.kept_trace import KeptTrace
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Source

if TYPE_CHECKING:
    from kvtool.accounting.prices.money_book import MoneyBook
    from kvtool.accounting.prices.price_table import PriceTable
    from kvtool.fixes.edits.apply import FileEdit
    from kvtool.profiler.advice.advisor import Advice
    from kvtool.profiler.advice.combined_fixes import Lookahead
    from kvtool.profiler.advice.trial_findings import Teller
    from kvtool.profiler.optimize.optimizer import Optimized
    from kvtool.profiler.reported.beside_events import BesideEvents
    from kvtool.profiler.reported.server_reads import ServerReads
    from kvtool.workload.yaml.yaml_source import YamlSource

    PlanEdits = Callable[[PassResult, Advice], tuple[Optimized, Advice]]
    """Carries advice out in the files; with what is done, the advice that was followed. Raises TrialInterruptedError."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What is asked of a profile beside the numbers."""

    advice: bool = True
    per_request: bool = False
    by: By | None = None
    views: bool = False
    """Whether what reports draw is collected, too."""


class Profiler:
    """Runs the passes over one source and puts their results together."""

    def __init__(
        self,
        source: Source,
        renderer: Renderer,
        plan: Plan,
        wanted: ReportOptions,
        *,
        progress: Progress,
        locate: Locate,
        path: str,
        count_skipped: Callable[[], int] = lambda: 0,
        measure: MeasureOptions | None = None,
        native_engine: EngineConfig | None = None,
        events: EventWriter | None = None,
        jobs: int | None = 1,
        pair_command: PairCommand | None = None,
        prices: Callable[[], PriceTable] | None = None,
        gpu_hour: Decimal | None = None,
        beside: BesideEvents | None = None,
        plan_edits: PlanEdits | None = None,
    ) -> None:
        """`count_skipped` tells how many bad lines the last pass over the source left out.

        `measure` asks for a real run, `native_engine` for another pass with a KV cache in the model's own dtype, and `events` gets
        what happens to the cache in the main pass. `jobs` processes may work on a pass, None: as many as pay. `pair_command` is
        how two requests of a log are shown side by side. `prices` are those of tokens, `gpu_hour` dollars for an accelerator's.
        `beside` holds the KV events of a server that ran the same. `plan_edits` carries advice out in the files of a workload.
        """
        self._plan_edits = plan_edits
        self.edits: Optimized | None = None
        """What `kvtool optimize` makes of the files on the advice of the last run; None where it edits none."""
        self._prices = prices
        self._gpu_hour = gpu_hour
        self.jobs = jobs
        self.measure = measure
        self.native_engine = native_engine
        self.events = events
        self.beside = beside
        self.pair_command = pair_command
        self.metrics: Metrics | None = None
        self.advice: Advice | None = None
        """What was tried in the last run and kept."""
        self.timelines: list[Timeline] = []
        """Hit rates in the course of the last run, whether the report has views or not."""
        self._edits: dict[str, list[FileEdit] | str] = {}
        self.source = source
        self.renderer = renderer
        self.plan = plan
        self.wanted = wanted
        self.progress = progress
        self.locate = locate
        self.path = path
        self.count_skipped = count_skipped
        self._kept: tuple[KeptTrace, TraceNumbers] | None = None
        """The trace as the reported pass took it, for those that try something else."""
        self._kept_requests: KeptRequests | None = None
        """The same of a log of prompts."""
        self.told: list[str] = []
        """What the last run left out, and by which rules it predicted what hosted models would read."""
        self.interrupted: str | None = None
        """How far the last run had come where it was interrupted."""
        self._requests: int | None = None
        """How many a whole pass takes, once there has been one."""

    def _account(
        self,
        stage: str,
        plan: Plan,
        *,
        explain: bool = False,
        reported: bool = False,
        fixes: Sequence[Fix] = (),
        kinder_hits: Sequence[tuple[str, Hits]] = (),
        keep_hits: bool = False,
        events: EventWriter | None = None,
        one_in: Mapping[str, int] | None = None,
        part: LogPart | None = None,
        money: bool = False,
    ) -> PassResult:
        """One pass with these fixes; `reported`: the pass that the report is about, with all that it shows.

        With a `part`, its requests are all there are. `money`: what they cost is summed, as in the reported pass.
        """
        self._begin(stage, part)
        source: Source = self.source
        renderer, numbers = self.renderer, None
        keep: KeptTrace | KeptRequests | None = None
        if plan.traced and events is None:
            numbers = TraceNumbers()
            if fixes and self._kept is not None:
                source, numbers = self._kept
            elif reported and self._may_try:
                keep = KeptTrace()
        elif part is not None:
            source = part.source
        elif fixes and self._kept_requests is not None:
            source = self._kept_requests
        elif reported and self.wanted.advice and isinstance(source, LogSource):
            keep = KeptRequests()
        for fix in fixes:
            plan = plan if fix.plan is None else fix.plan(plan)
            source = source if fix.source is None else fix.source(source)
            renderer = renderer if fix.renderer is None else fix.renderer(renderer)
        maker = JobMaker(renderer, seed=plan.seed, numbers=numbers, answers=plan.rules != "block-lru")
        accountant = Pass(
            plan,
            maker,
            progress=self.progress,
            explain=explain,
            per_request=reported and self.wanted.per_request,
            kinder_hits=kinder_hits,
            keep_hits=keep_hits,
            rewrite=combined(fixes) if fixes else None,
            events=events,
            look_at_decode=reported,
            by=self.wanted.by if reported else None,
            one_in=one_in,
            views=self._view_book(plan) if reported else None,
            only_hits=not (explain or reported),
            only_causes=explain and bool(fixes) and not reported,
            keep=keep,
            jobs=self.jobs,
            money=self._money_book(plan) if reported or money else None,
            timed=money,
            beside=self.beside if reported else None,
        )
        result = accountant.run(source)
        if result.money is not None and isinstance(self.source, LogSource):
            result.money.store(self.source.outcome.stored)
        if not result.partial and part is None:
            self._requests = self.progress.done
            if isinstance(keep, KeptRequests):
                self._kept_requests = keep if keep.complete else None
            elif keep is not None and keep.complete and numbers is not None:
                self._kept = keep, numbers
        return result

    @property
    def _may_try(self) -> bool:
        """Whether the run of a trace may lose anything that is worth another run."""
        return self.wanted.advice and (self.plan.engine.num_blocks is not None or self.plan.cache is not None)

    def _money_book(self, plan: Plan) -> MoneyBook | None:
        """For runs by the rules of providers."""
        if self._prices is None or plan.cache is None or not plan.cache.hosted:
            return None
        from kvtool.accounting.prices.money_book import MoneyBook

        return MoneyBook(self._prices())

    def _money_told(self, result: PassResult, off: Sequence[float]) -> MoneyTold:
        """What was reported, predicted and paid; with fixes that were kept by running once more."""
        reads = None if result.reads is None else self._read_there(result, result.reads)
        if result.money is None and self._gpu_hour is None:
            return reads or MoneyTold()
        from kvtool.profiler.reported.money_report import FixedRun, money_told

        gpu = None
        if self._gpu_hour is not None:
            seconds = max(sum(off) - sum(result.ttft_on), 0.0) * self.plan.latency.tensor_parallel
            saved = self._gpu_hour * Decimal(str(round(seconds, 9))) / 3600
            gpu = GpuMoney(hour=str(self._gpu_hour), saved_seconds=seconds, saved=format(saved, "f"))
        marks = fixed = None
        if result.money is not None and result.money.known:
            from kvtool.profiler.reported.mark_trials import MarkTrials

            def again(fixes: Sequence[Fix]) -> PassResult:
                return self._account("pricing the fixes", self.plan, fixes=fixes, money=True)

            tries = self.wanted.advice and not result.partial
            marks = MarkTrials(result, result.money, again if tries else None)
            kept = self.advice.fixes if self.advice is not None and tries else []
            run = again(kept) if kept else None
            if run is not None and run.partial:
                result.partial = True
            elif run is not None and run.money is not None:
                fixed = FixedRun(run, MarkTrials(run, run.money, again, kept))
        return money_told(result, marks, fixed, gpu, reads)

    def _read_there(self, result: PassResult, reads: ServerReads) -> MoneyTold:
        """What servers reported beside what the engine read, request by request."""
        from kvtool.profiler.reported.server_reported import server_told

        told, notes = server_told(result, reads, self.plan)
        self.told += notes
        return told

    def _view_book(self, plan: Plan) -> ViewBook:
        whole = plan.rules == "block-lru"
        return ViewBook(plan.base_block, whole_prompt_may_hit=whole, details=self.wanted.views)

    def _begin(self, stage: str, part: LogPart | None = None) -> None:
        """Tell the progress what comes: as many requests as in the last pass, or in the workload, or what the log's bytes say."""
        source, limit = self.source, self.plan.limit
        total = self._requests if part is None else part.requests
        if total is None and (workload := _workload_file(source)) is not None and workload.requests is not None:
            total = workload.requests if limit is None else min(workload.requests, limit)
        self.progress.stage(stage, total, self._share_read if isinstance(source, LogSource) else None)

    def _share_read(self) -> float | None:
        """Of a log that is read for the first time: by its bytes, or by the requests that are wanted of it."""
        assert isinstance(self.source, LogSource)
        share, limit = self.source.share_read(), self.plan.limit
        return share if limit is None else max(share or 0.0, self.progress.done / limit)

    def _cut_short(self) -> str:
        """Of how much of the workload the figures are, where the accounting was interrupted."""
        share = self._share_read() if isinstance(self.source, LogSource) else None
        of = f", {percent(share)} of the log" if share is not None else ""
        return (
            f"interrupted after {plural(self.progress.done, 'request')}{of}: the figures are of these; no fix was tried"
        )

    def run(self) -> Report:
        """Account and advise; KvtoolError where there is nothing to profile. `measured` completes the report."""
        plan = self.plan
        if self.measure is not None:
            self._check_measure(self.measure)
        together = not plan.one_at_a_time and plan.rules == "vllm"
        kinder = self._kinder_hits() if together else []
        result = self._account("accounting", plan, explain=True, reported=True, kinder_hits=kinder, events=self.events)
        self.interrupted = self._cut_short() if result.partial else None
        skipped = self.count_skipped()
        self.told = [*left_out(result), *sticky_told(result, plan, self.path)]
        if not any(group.requests for group in result.ledger.totals()):
            if result.partial:
                raise KeyboardInterrupt  # there is nothing to show yet
            reason = f"; {result.first_refusal}" if result.refused else "".join(f"; {one}" for one in self.told)
            raise KvtoolError(
                f"{self.path}: no request could be profiled{reason}",
                hint="check the input and the limits of the engine",
            )
        off = result.ttft_off
        if together and not result.partial:
            uncached = replace(plan, engine=replace(plan.engine, enable_prefix_caching=False))
            without = self._account("without the cache", uncached)
            off = without.ttft_on
            result.partial = without.partial
        assert result.views is not None, "the pass that the report is about"
        groups = list(result.ledger.totals())
        findings = self._run_findings(result, groups)
        findings += observable_findings(result.observable.observed(), path=self.path, group=groups[0].name)
        if self.wanted.advice and not result.partial:
            from kvtool.profiler.advice.trial_findings import Teller, one_of_each

            teller = Teller(result, plan, locate=self.locate, path=self.path, pair_command=self.pair_command)
            advice = self._advise(result, teller)
            advice, findings = one_of_each(advice, findings)
            findings = with_causes(advice, findings, groups)
            if not result.partial:  # else causes are left to be told
                findings = with_the_rest(findings, groups, result.causes, teller.described, path=self.path)
                check_nothing_hidden(findings, groups)
        gain = self._dtype_gain(result, TokenTotals.of(groups).hit_rate) if not result.partial else None
        check_counted_once(findings, groups)
        if result.partial and self.interrupted is None:
            self.interrupted = "interrupted after all requests were accounted for: not every fix was tried"
        self.timelines = result.views.timelines()
        report = made_report(
            result,
            plan,
            groups=groups,
            ttft_off=off,
            findings=by_cost(in_their_files(findings)),
            causes=group_causes(result, groups, self.advice, locate=self.locate, path=self.path),
            kv_cache_dtype=gain,
            skipped_lines=skipped,
            editable=self.edits is not None and bool(self.edits.files),
            per_request=self.wanted.per_request,
            by=self.wanted.by,
            told=self._money_told(result, off),
        )
        apart = plan.cache is None or plan.cache.engine is None or plan.cache.engine.rules.scopes
        if self.wanted.advice and apart and not result.partial and len(result.observable.tenants) > 1:
            from kvtool.profiler.reported.isolation_cost import isolation_of

            again = partial(self._account, "keeping tenants apart", plan, money=True)
            isolation = isolation_of(result, lambda fixes: again(fixes=fixes), locate=self.locate)
            report = report.model_copy(update={"isolation": isolation, "partial": result.partial})
        if self.beside is not None:
            told = self.beside.told(plan, per_request=self.wanted.per_request)
            report = report.model_copy(update={"kv_events": told})
        self.metrics = self._metrics(result, report.totals)
        return report

    def _kinder_hits(self) -> list[tuple[str, Hits]]:
        """What requests that run together hit where a limit of the engine is lifted, by the fate that this explains."""
        from kvtool.accounting.caches.relaxed_configs import full_attention, kinder_configs

        plan = self.plan
        found: list[tuple[str, Hits]] = []
        for fate, engine in [*kinder_configs(plan.engine), *full_attention(plan.engine, plan.base_block)]:
            stage = "unlimited cache" if fate == "evicted" else f"without the limit {fate}"
            run = self._account(stage, replace(plan, engine=engine), keep_hits=True)
            if run.partial:
                raise KeyboardInterrupt  # there is nothing to show yet
            found.append((fate, run.hits))
        return found

    def measured(self, report: Report) -> Report:
        """The report of `run` with what real runs gave, where they were asked for; an interruption marks it."""
        if self.measure is None or report.partial:
            return report
        try:
            measured, interrupted = self._measured(self.measure, report.decode)
        except KeyboardInterrupt:  # while the model was made
            measured, interrupted = Measurements(), True
        return with_measurements(report, measured, partial=interrupted)

    def _dtype_gain(self, result: PassResult, hit_rate: float) -> KvCacheDtype | None:
        """How the workload fares with the model's own dtype in the memory that the chosen one has."""
        native, blocks = self.native_engine, self.plan.engine.num_blocks
        if native is None or native.num_blocks is None or blocks is None:
            return None
        other = self._account("native KV dtype", replace(self.plan, engine=native))
        result.partial = other.partial
        rate = None if other.partial else TokenTotals.of(other.ledger.totals()).hit_rate
        return KvCacheDtype(
            dtype=self.plan.kv_cache_dtype,
            native_dtype=find_kv_dtype(AUTO).name,
            blocks=blocks - 1,
            native_blocks=native.num_blocks - 1,
            hit_rate=hit_rate,
            native_hit_rate=rate,
        )

    def _metrics(self, result: PassResult, total: Totals) -> Metrics:
        blocks = self.plan.engine.num_blocks
        engine_ran = self.plan.rules == "vllm"
        return Metrics(
            model_name=self.plan.latency.geometry.name,
            queries=result.queries if engine_ran else total.prompt_tokens,
            hits=result.hit_queries if engine_ran else total.hit_tokens,
            prompt_tokens=total.prompt_tokens,
            cached_tokens=total.hit_tokens,
            generation_tokens=result.generation_tokens,
            preemptions=result.preemptions,
            ttft=result.ttft_on,
            requests=total.requests,
            computed=result.computed,
            config=self._cache_config() if engine_ran else {},
            kv_cache_usage=result.peak_used_blocks / (blocks - 1) if blocks is not None and engine_ran else None,
        )

    def _cache_config(self) -> dict[str, str]:
        """The labels of vLLM's `cache_config_info` that the plan says; "None" where nothing is set, as there."""
        engine = self.plan.engine
        tokens = None if engine.num_blocks is None else engine.num_blocks * engine.block_size
        return {
            "block_size": str(engine.block_size),
            "cache_dtype": self.plan.kv_cache_dtype,
            "effective_attention_block_size": str(engine.block_size),
            "enable_prefix_caching": str(engine.enable_prefix_caching),
            "kv_cache_size_tokens": str(tokens),
            "num_gpu_blocks": str(engine.num_blocks),
            "num_gpu_blocks_override": "None",
            "prefix_caching_hash_algo": engine.hash_algo,
            "sliding_window": "None",
        }

    def explained(self) -> PassResult:
        """One pass with causes. Raises TrialInterruptedError where it was interrupted."""
        result = self._account("accounting", self.plan, explain=True)
        if result.partial:
            raise TrialInterruptedError
        return result

    def advised(self, result: PassResult, tiers: Collection[Tier] = ALL_TIERS) -> Advice:
        """The fixes of these tiers that win. Raises TrialInterruptedError."""
        from kvtool.fixes.propose import propose
        from kvtool.profiler.advice.advisor import Advisor

        block_size, blocks = self.plan.base_block, self.plan.engine.num_blocks
        again = partial(self._tried, one_in=one_in(result.ledger.totals()))
        proposed = partial(propose, block_size=block_size)
        capacity = None if blocks is None else (blocks - 1) * block_size
        ahead = self._lookahead(result)
        return Advisor(result, again, proposed, tiers=tiers, capacity=capacity, lookahead=ahead).advise()

    def _lookahead(self, result: PassResult) -> Lookahead | None:
        """Where a part of a large log tells enough about all of it."""
        if self._kept_requests is None or not can_be_parted(self.plan):
            return None
        from kvtool.profiler.advice.combined_fixes import Lookahead

        part = LogPart.of(self._kept_requests, list(result.ledger.totals()))
        return None if part is None else Lookahead(partial(self._tried_in_part, part))

    def _tried_in_part(self, part: LogPart, fixes: Sequence[Fix], explain: bool) -> PassResult:
        """One pass over a part with fixes; its causes count for all of the log."""
        result = self._account("trying fixes in a part", self.plan, explain=explain, fixes=fixes, part=part)
        for group, weight in part.weights.items():
            result.causes.scale(group, weight)
        result.forget_requests()
        return result

    def _tried(self, fixes: Sequence[Fix], explain: bool, *, one_in: Mapping[str, int] | None = None) -> PassResult:
        """One pass with fixes, its totals and causes; `one_in` has causes looked for in a part of large groups."""
        result = self._account("trying fixes", self.plan, explain=explain, fixes=fixes, one_in=one_in)
        result.forget_requests()
        return result

    def _run_findings(self, result: PassResult, groups: list[GroupTotals]) -> list[Finding]:
        """What the run and the chat template explain; with what a fix won, where one was to be tried."""
        plan, path = self.plan, self.path
        size = plan.base_block
        found = run_findings(
            groups,
            path=path,
            block_size=size,
            rules=plan.cache,
            boundaries=result.boundaries,
            tenants=len(result.unsalted),
        )
        if plan.served is not None:
            from kvtool.diagnose.group_findings import group_findings

            found += group_findings(groups, plan.served, plan.engine, path=path)
        shared = sensitive_findings(result.sensitive.shared(), path=path, locate=self.locate)
        if not self.wanted.advice or result.partial:
            return found + shared
        from kvtool.fixes.chat.chat_probe import sample_turns
        from kvtool.fixes.chat.chat_templates import check_chat_template
        from kvtool.fixes.run_fixes import run_fixes
        from kvtool.profiler.advice.trials import RunTrials

        trials = RunTrials(result, self._tried)
        try:
            found = trials.proven(found, run_fixes(groups, plan, keyed=result.keyless < result.routed))
            found += trials.checked(check_chat_template(self.renderer, sample_turns(self.source)))
        except TrialInterruptedError:
            result.partial = True
        return found + shared

    def _advise(self, result: PassResult, teller: Teller) -> list[Finding]:
        """The findings of fixes that were tried; an interruption marks the result."""
        try:
            advice = self.advised(result)
            if self._plan_edits is not None and advice.kept:
                self.edits, followed = self._plan_edits(result, advice)
                advice = advice.after(followed)
            self.advice = advice
        except TrialInterruptedError:
            result.partial = True
            return []
        return teller.findings(advice, self.edits)

    def edits_of(self, fix: Fix) -> list[FileEdit] | str:
        """The edits of the workload's own files that make a fix that was kept, or why there are none; found out once for each."""
        if fix.key not in self._edits:
            from kvtool.fixes.edits.edits import edits_for

            source = _workload_file(self.source)
            assert source is not None
            self._edits[fix.key] = edits_for([fix], source)
        return self._edits[fix.key]

    @staticmethod
    def _check_measure(how: MeasureOptions) -> None:
        """For what was asked for and cannot be had, a device or a model or torch: better now than after all the accounting."""
        if how.asked:
            with uninterrupted():
                need_engine("a real run")
        if how.model is None and how.device in ("auto", "cpu"):
            return
        if not how.asked and not_measured() is not None:
            return
        with uninterrupted():
            from kvtool.engine.model.device import find_device  # torch
            from kvtool.engine.model.weights import check_model

        device = find_device(how.device)
        if how.model is not None:
            check_model(how.model, dtype=how.dtype, load_format=how.load_format, device=device)

    def _measured(self, how: MeasureOptions, decode: Decode | None) -> tuple[Measurements, bool]:
        """What was measured, or why nothing was; whether it was interrupted."""
        began = time.monotonic()
        self._begin("measuring")
        self.progress.advance(0)
        with uninterrupted():
            lack = not_measured()
            if lack is not None:
                return Measurements(lack), False
            from kvtool.measure.local import Measurement  # torch: two seconds that accounting alone does not need

        maker = JobMaker(self.renderer, seed=self.plan.seed)
        measurement = Measurement(
            self.plan.measured_engine,
            maker,
            how,
            limit=self.plan.limit,
            progress=self.progress,
            began=began,
            decode_together=round(decode.batch) if decode is not None else 0,
        )
        run = measurement.run(self.source)
        return Measurements(run.ttft(), run.tpot()), run.interrupted


def _workload_file(source: Source) -> YamlSource | None:
    """The source as that of a workload file; None where it is another, and nothing is loaded for a log's sake."""
    if isinstance(source, LogSource):
        return None
    from kvtool.workload.yaml.yaml_source import YamlSource

    return source if isinstance(source, YamlSource) else None
