"""Profile a workload: the passes that it takes, and their results put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.event_writer import EventWriter
from kvtool.accounting.ledger.totals import GroupTotals, TokenTotals
from kvtool.accounting.metrics import Metrics
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.observable import ObservableBook
from kvtool.accounting.plan import Plan
from kvtool.accounting.views.collector import ViewBook
from kvtool.config.command_line import flag
from kvtool.diagnose.finding_cost import by_cost
from kvtool.diagnose.findings import Locate, in_their_files
from kvtool.diagnose.run_findings import observable_findings, run_findings, sensitive_findings
from kvtool.diagnose.shared_secrets import SensitiveBook
from kvtool.engine.config import EngineConfig
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.measure.measure_options import MeasureOptions
from kvtool.measure.request_sample import RequestSample
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.copied_places import with_copied_places
from kvtool.profiler.document import Measurements, made_report, with_measurements
from kvtool.profiler.finding_counts import check_counted_once, with_causes
from kvtool.profiler.fix_gains import group_causes
from kvtool.profiler.left_out import LeftOutRequests, left_out, notes_on_rules, reasoning_left_out
from kvtool.profiler.measuring import check_measure, measure
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.reported.money_parts import MoneySections
from kvtool.profiler.reported.server_reads import ServerReadBook
from kvtool.profiler.run.purposes import counted_run
from kvtool.profiler.run.run_books import ProvidersBill, SaltBook, TimeBook
from kvtool.profiler.run.run_metrics import run_metrics
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.profiler.run.samples import SampleBook
from kvtool.profiler.run.workload_runs import WorkloadRuns, workload_file
from kvtool.profiler.run_model import ModelSizes
from kvtool.profiler.sticky_sessions import note_sessionless_requests
from kvtool.profiler.unexplained_losses import add_rest_findings, check_losses_explained
from kvtool.results.choices import By, tokens_by
from kvtool.results.finding import Finding
from kvtool.results.money import GpuMoney
from kvtool.results.report import KvCacheDtype, Report
from kvtool.results.views import Timeline
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer_files import BUILT_IN
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Source

if TYPE_CHECKING:
    from kvtool.accounting.prices.price_table import PriceTable
    from kvtool.fixes.edits.apply import FileEdit
    from kvtool.profiler.advice.kept_fixes import Advice
    from kvtool.profiler.advice.trial_findings import Teller
    from kvtool.profiler.advising import Advising
    from kvtool.profiler.optimize.edited_files import Optimized
    from kvtool.profiler.reported.cheapest_marks import MarkTrial
    from kvtool.profiler.reported.event_comparison import EventComparison
    from kvtool.profiler.reported.server_reads import ServerReads

    PlanEdits = Callable[["Profiler", RunResult], tuple[Optimized, Advice]]
    """Apply the advice of a profiler to the files; return with them the advice that was followed. Raises TrialInterruptedError."""


PlannedEdits = Literal["none", "first", "all"]


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Requested contents of a profile beside the numbers."""

    advice: bool = True
    per_request: bool = False
    by: By | None = None
    views: bool = False
    """True if the data of charts is collected, too."""
    edits: PlannedEdits = "all"
    """Edits of the files that are planned: `none`, those of the advice on the files as they are, or all that `optimize` makes."""


class Profiler:
    """Run the passes over one source and puts their results together."""

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
        beside: EventComparison | None = None,
        plan_edits: PlanEdits | None = None,
    ) -> None:
        """Create the profiler. `count_skipped` returns the number of bad lines that the last pass over the source left out.

        `measure` requests a real run, `native_engine` another pass with a KV cache in the model's own dtype, and `events` gets the
        cache's events in the main pass. `jobs` processes may work on a pass, None: as many as pay. `pair_command` shows two
        requests of a log side by side. `prices` are those of tokens, `gpu_hour` is dollars for an accelerator's hour. `beside`
        contains the KV events of a server that ran the same requests. `plan_edits` applies advice to the files of a workload.
        """
        self._plan_edits = plan_edits
        self.edits: Optimized | None = None
        """Edits by `kvtool optimize` on the advice of the last run; None if it edits no files."""
        self._gpu_hour = gpu_hour
        self.runs = WorkloadRuns(
            source, renderer, plan, progress=progress, jobs=jobs, prices=prices, tries=wanted.advice
        )
        self.measure = measure
        self._sample: RequestSample | None = None
        self.native_engine = native_engine
        self.events = events
        self.beside = beside
        self.pair_command = pair_command
        self.metrics: Metrics | None = None
        self.advice: Advice | None = None
        """Advice that was tried in the last run and kept."""
        self.followed: Advice | None = None
        """The part of it that the next command carries out: no more tiers are allowed than that needs."""
        self.timelines: list[Timeline] = []
        """Hit rates in the course of the last run, whether the report has views or not."""
        self._best: MarkTrial | None = None
        """The trial with all that lowers the cost in the last run: fixes, request settings and marks."""
        self._marks: MarkTrial | None = None
        """The trial of the cheapest marks in the last run."""
        self._edits: dict[str, list[FileEdit] | str] = {}
        self.source = source
        self.renderer = renderer
        self.plan = plan
        self.wanted = wanted
        self.progress = progress
        self.locate = locate
        self.path = path
        self.count_skipped = count_skipped
        self.told: list[str] = []
        self.left_out: list[LeftOutRequests] = []
        """What no figure of the report includes."""
        """The last run's left-out requests, and the rules by which it predicted reads of hosted models."""
        self.interrupted: str | None = None
        """The progress of the last run when it was interrupted."""

    def _money_sections(self, result: RunResult, off: Sequence[float]) -> MoneySections:
        """Return the reported, predicted and paid sums; with kept fixes by one more run."""
        read_there, book = result.find(ServerReadBook), money_of(result)
        reads = None if read_there is None or read_there.reads is None else self._server_reads(result, read_there.reads)
        hour = self._gpu_hour
        if hour is not None and not off:
            self.told.append("no GPU cost: times of an unknown model are not predicted")
            hour = None
        bill = result.find(ProvidersBill)
        billed = None if bill is None else bill.money
        if book is None and hour is None and billed is None:
            return reads or MoneySections()
        from kvtool.profiler.reported.money_report import make_money_sections, with_providers_bill

        gpu = None
        if hour is not None:
            seconds = max(sum(off) - sum(result.book(TimeBook).on), 0.0) * self.plan.latency.tensor_parallel
            saved = hour * Decimal(str(round(seconds, 9))) / 3600
            gpu = GpuMoney(hour=str(hour), saved_seconds=seconds, saved=format(saved, "f"))
        marks = fixed = None
        misses = result.find(MissBook)
        predicts = misses is None or misses.predictable
        advises = misses is None or misses.advisable
        if book is not None and book.known and predicts and (advises or self.advice is not None):
            from kvtool.profiler.reported.cheapest_marks import MarkTrial

            marks, trial = self._marks or MarkTrial(result, book, None), self._best
            if trial is None and self.followed is not None and self.followed.fixes and not result.partial:
                run = self.runs.priced("pricing the fixes", self.followed.fixes)
                result.partial, fixed_book = run.partial, money_of(run)
                trial = None if fixed_book is None else MarkTrial(run, fixed_book, None)
            if trial is not None and trial.result is not result and not result.partial:
                fixed = trial
        if self.wanted.advice and not result.partial and (there := result.counts.hosted) is not None and there.nameable:
            from kvtool.profiler.reported.named_caches import named_caches_note

            self.told += named_caches_note(result)
        sections = make_money_sections(result, marks, fixed, gpu, reads, predicts=predicts)
        return sections if bill is None else with_providers_bill(sections, bill)

    def _server_reads(self, result: RunResult, reads: ServerReads) -> MoneySections:
        """Compare servers' reports with the engine's reads, request by request."""
        from kvtool.profiler.reported.server_reported import compare_server_reports

        told, notes = compare_server_reports(result, reads, self.plan)
        self.told += notes
        return told

    def _mark_trial(self, result: RunResult) -> MarkTrial | None:
        """Return the trial of the cheapest marks; None where nothing is priced, or the rules do not predict what was reported."""
        misses = result.find(MissBook)
        if money_of(result) is None or (misses is not None and not (misses.predictable and misses.advisable)):
            return None
        from kvtool.profiler.reported.cheapest_marks import MarkTrial

        again = partial(self.runs.priced, "pricing the fixes")
        return MarkTrial.of(result, again, samples=result.find(SampleBook))

    def _cut_short(self) -> str:
        """Return the part of the workload that the figures cover, if the accounting was interrupted."""
        share = self.runs.share_read() if isinstance(self.source, LogSource) else None
        of = f", {percent(share)} of the log" if share is not None else ""
        return f"interrupted after {plural(self.progress.done, 'request')}{of}: the figures cover only these; no fix was tested"

    def run(self) -> Report:
        """Account and advise; KvtoolError where there is nothing to profile. `measured` completes the report."""
        plan = self.plan
        if self.measure is not None:
            check_measure(self.measure)
            self._sample = RequestSample(plan.seed)
        together = not plan.one_at_a_time and plan.by_engine
        result = self.runs.reported(
            relaxed=self.runs.relaxed_hits() if together else [],
            per_request=self.wanted.per_request,
            by=self.wanted.by,
            views=self.wanted.views,
            beside=self.beside,
            events=self.events,
            sample=self._sample,
        )
        self.interrupted = self._cut_short() if result.partial else None
        skipped = self.count_skipped()
        sizes = ModelSizes.of(result.book(TimeBook).models, plan)
        self.left_out = left_out(result.left_out, self.source, hosted=plan.hosted)
        self.told = [
            *sizes.notes,
            *(one.said() for one in self.left_out),
            *notes_on_rules(result),
            *note_sessionless_requests(result, plan, self.path),
        ]
        reported = result.find(MissBook)
        is_reported = reported is not None and reported.total.requests > 0
        is_billed = (money := money_of(result)) is not None and money.known
        if not is_reported and not is_billed and not any(group.requests for group in result.ledger.totals()):
            if result.partial:
                raise KeyboardInterrupt  # there is nothing to show yet
            reason = (
                f"; {result.left_out.first_refusal}"
                if result.left_out.refused
                else "".join(f"; {one}" for one in self.told)
            )
            raise KvtoolError(
                f"{self.path}: no request was profiled{reason}",
                hint="check the input and the limits of the engine",
            )
        off = result.book(TimeBook).off
        if together and not result.partial:
            uncached = replace(plan, engine=replace(plan.engine, enable_prefix_caching=False))
            without = self.runs.run("without the cache", uncached)
            off = without.book(TimeBook).on
            result.partial = without.partial
        groups = list(result.ledger.totals())
        findings = self._run_findings(result, groups)
        if (
            self.wanted.advice
            and not result.partial
            and (keys := result.find(MissBook)) is not None
            and keys.cache_keys > 1
        ):
            from kvtool.profiler.reported.cheapest_settings import with_key_gain

            findings = with_key_gain(findings, result, partial(self.runs.priced, "trying one cache key"))
        for group in groups[:1]:
            observed = result.book(ObservableBook).observed()
            findings += observable_findings(observed, path=self.path, group=group.name)
        misses = result.find(MissBook)
        self._check_by(misses)
        silent = [] if misses is None else misses.differing_groups
        told_groups = [group for group in groups if group.name not in silent]
        if self.wanted.advice and not result.partial and (misses is None or (misses.predictable and told_groups)):
            from kvtool.profiler.advice.merged_findings import drop_repeated_findings
            from kvtool.profiler.advice.trial_findings import Teller

            teller = Teller(result, plan, locate=self.locate, path=self.path, pair_command=self.pair_command)
            advice = self._advise(result, teller)
            advice, findings = drop_repeated_findings(advice, self._with_made_marks(findings))
            findings = with_causes(advice, findings, told_groups)
            if not result.partial:  # else causes may be missing
                findings = add_rest_findings(findings, told_groups, result.causes, teller.described, path=self.path)
                check_losses_explained(findings, told_groups)
        if self.wanted.advice and not result.partial and misses is not None and silent:
            findings += self._unverified(result, misses)
        if self.wanted.advice and misses is None:
            from kvtool.profiler.advice.left_to_do import of_short_requests

            by_name = {group.name: group for group in groups}
            findings = [of_short_requests(each, by_name, plan) for each in findings]
        gain = self._dtype_gain(result, TokenTotals.of(groups).hit_rate) if not result.partial else None
        check_counted_once(findings, groups)
        if result.partial and self.interrupted is None:
            self.interrupted = "interrupted after all requests: some fixes were not tested"
        self.timelines = result.book(ViewBook).timelines()
        report = made_report(
            result,
            plan,
            groups=groups,
            ttft_off=off,
            findings=with_copied_places(by_cost(in_their_files(findings)), workload_file(self.source)),
            causes=group_causes(result, groups, self.advice, locate=self.locate, path=self.path),
            kv_cache_dtype=gain,
            skipped_lines=skipped,
            kept_fixes=self._count_kept(),
            editable=self._is_editable(result),
            by=tokens_by(self.wanted.by),
            told=self._money_sections(result, off),
            pair=self.pair_command,
        )
        apart = plan.cache is None or plan.cache.engine is None or plan.cache.engine.rules.scopes
        if self.wanted.advice and apart and not result.partial and len(result.book(ObservableBook).tenants) > 1:
            from kvtool.profiler.reported.isolation_cost import isolation_of

            again = partial(self.runs.priced, "keeping tenants apart")
            isolation = isolation_of(result, again, locate=self.locate)
            report = report.model_copy(update={"isolation": isolation, "partial": result.partial})
        if self.beside is not None:
            told = self.beside.told(plan, per_request=self.wanted.per_request)
            report = report.model_copy(update={"kv_events": told})
        self.metrics = run_metrics(plan, result, report.totals)
        return report

    def _check_by(self, misses: MissBook | None) -> None:
        """Raise KvtoolError where sums were asked for that only a log with reported usage has."""
        by = self.wanted.by
        if by is None or tokens_by(by) is not None or (misses is not None and misses.total.requests):
            return
        raise KvtoolError(
            f"{self.path}: a breakdown by {by} needs a log with reported usage",
            hint="without usage: session, tenant or line",
        )

    def measured(self, report: Report) -> Report:
        """Return the report of `run` with the results of real runs, if requested; an interruption marks it."""
        if self.measure is None or self._sample is None or report.partial:
            return report
        if report.reported is not None and report.predicted is None and report.ttft.predicted.on is None:
            return report  # there are no prompts to run
        try:
            measured, interrupted = measure(self.runs, self.measure, self._sample, report.decode)
        except KeyboardInterrupt:  # while the model was made
            measured, interrupted = Measurements(), True
        return with_measurements(report, measured, partial=interrupted)

    def _dtype_gain(self, result: RunResult, hit_rate: float) -> KvCacheDtype | None:
        """Return the workload's results with the model's own dtype in the memory of the chosen one."""
        native, blocks = self.native_engine, self.plan.engine.num_blocks
        if native is None or native.num_blocks is None or blocks is None:
            return None
        other = self.runs.run("native KV dtype", replace(self.plan, engine=native))
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

    def explained(self) -> RunResult:
        """Make one pass with causes, for advice. Raises TrialInterruptedError if it is interrupted."""
        result = self.runs.reported(
            relaxed=[], per_request=False, by=None, views=False, beside=None, events=None, sample=None
        )
        if result.partial:
            raise TrialInterruptedError
        return result

    def counted(self) -> RunResult:
        """Make one pass for the hits alone. Raises TrialInterruptedError if it is interrupted."""
        result = self.runs.run("accounting", self.plan, partial(counted_run, money=self.runs.money_book()))
        if result.partial:
            raise TrialInterruptedError
        return result

    @cached_property
    def advising(self) -> Advising:
        """The advice on this profiler's runs."""
        from kvtool.profiler.advising import Advising

        return Advising(self.runs)

    def _unverified(self, result: RunResult, misses: MissBook) -> list[Finding]:
        """Return the facts of the text and of the reports in groups whose reports differ from the rules."""
        from kvtool.profiler.advice.trial_findings import Teller

        built_in = not self.plan.hosted and self.renderer.tokenizer.name == BUILT_IN
        why = (
            f"The gain is not verified, as the tokenizer differs: add {flag('tokenizer')}"
            if built_in
            else "The gain is not verified, as reports and rules differ"
        )
        teller = Teller(result, self.plan, locate=self.locate, path=self.path, pair_command=self.pair_command)
        fixes_of = self.advising.tried_on(result).fixes_of
        return teller.unverified(misses.differing_groups, fixes_of, misses.proves_change, why)

    def advised_with_edits(self, result: RunResult) -> tuple[Advice, Advice]:
        """Return the advice on a run and the part that is followed first, and keep the `edits` of files that carry that out.

        Raises TrialInterruptedError.
        """
        from kvtool.fixes.marked_head import lacks_mark
        from kvtool.profiler.advice.next_tiers import next_advice

        advice = self.advising.advised(result)
        if not advice.kept and not any(lacks_mark(group, self.plan) for group in result.ledger.totals()):
            return advice, advice
        if self._plan_edits is None or self.wanted.edits == "none":
            followed = next_advice(lambda tiers: self.advising.advised(result, tiers))
        else:
            self.edits, followed = self._plan_edits(self, result)
        return advice.after(followed), followed

    def _run_findings(self, result: RunResult, groups: list[GroupTotals]) -> list[Finding]:
        """Return the findings of the run and the chat template, with a fix's gain if one was tried."""
        plan, path = self.plan, self.path
        size, salts = plan.base_block, result.find(SaltBook)
        found = run_findings(
            groups,
            path=path,
            block_size=size,
            rules=plan.cache,
            boundaries=result.book(BoundaryBook),
            knows_marks=(book := result.find(MissBook)) is None or book.knows_marks,
            predictable=book is None or book.advisable,
            cache_keys=1 if book is None else book.cache_keys,
            longer_ttl=book is None or book.longer_ttl_helps,
            tenants=0 if salts is None else len(salts.salts),
            several_models=len(result.book(TimeBook).models) > 1 and plan.models is not None,
        )
        if plan.served is not None:
            from kvtool.diagnose.layer_group_findings import group_findings

            found += group_findings(groups, plan.served, plan.engine, path=path)
        shared = sensitive_findings(result.book(SensitiveBook).shared(), path=path, locate=self.locate)
        if not self.wanted.advice or result.partial:
            return found + shared
        from kvtool.fixes.chat.chat_probe import sample_turns
        from kvtool.fixes.chat.chat_templates import check_chat_template
        from kvtool.fixes.marked_head import marked_heads, without_useless_mark
        from kvtool.fixes.run_fixes import run_fixes
        from kvtool.profiler.advice.trials import RunTrials
        from kvtool.profiler.reported.request_settings import setting_fixes

        trials = RunTrials(result, self.runs.tried)
        self._marks = self._mark_trial(result)
        if self._marks is not None:
            found = [self._marks.proven(finding) for finding in found]
        sample = sample_turns(self.source)
        if any(turn.messages for turn in sample):
            self.told += reasoning_left_out(self.renderer.chat_template, sample)
        try:
            keyed = result.counts.keyless < result.counts.routed
            heads = marked_heads(groups, plan, result.book(SampleBook).of_group, self.locate)
            found = trials.proven(found, [*run_fixes(groups, plan, keyed=keyed), *setting_fixes(result), *heads])
            found = [without_useless_mark(each, groups) for each in found]
            found += trials.checked(check_chat_template(self.renderer, sample))
        except TrialInterruptedError:
            result.partial = True
        return found + shared

    def _advise(self, result: RunResult, teller: Teller) -> list[Finding]:
        """Return the findings of fixes that were tried; an interruption marks the result."""
        try:
            advice, followed = self.advised_with_edits(result)
            base = self._marks if self._marks is None or not followed.fixes else self._marks.after(followed.fixes)
            if base is not None:
                from kvtool.profiler.reported.advice_with_settings import with_added_fixes
                from kvtool.profiler.reported.cheapest_settings import cheapest_trial

                self._best = cheapest_trial(base, followed.idle)
                result.partial = result.partial or base.result.partial
                every = [group.name for group in result.ledger.totals()]
                explained = partial(self.runs.tried, explain=every)
                marked = with_added_fixes(followed, base.result, self._best, explained)
                advice, followed = marked if advice is followed else advice.after(marked), marked
            self.advice, self.followed = advice, followed
        except TrialInterruptedError:
            result.partial = True
            return []
        from kvtool.profiler.advice.made_steps import MadeSteps
        from kvtool.profiler.reported.rule_agreement import rule_differences, with_estimates

        made = MadeSteps.of(followed, advice) if self.edits is None else MadeSteps.by_edits(self.edits)
        return with_estimates(teller.findings(advice, made), rule_differences(result))

    def _with_made_marks(self, findings: list[Finding]) -> list[Finding]:
        if self.edits is None:
            return findings
        from kvtool.profiler.advice.made_steps import with_made_marks

        return with_made_marks(findings, self.edits)

    def _count_kept(self) -> int:
        """Count the fixes that are kept: the steps that edits of files make, and all where no file is edited."""
        if self.edits is not None and self.edits.edited:
            return self.edits.count
        return 0 if self.followed is None else len(self.followed.steps)

    def _is_editable(self, result: RunResult) -> bool:
        """Return whether `kvtool optimize` edits the files; where no edits were planned, whether an edit makes any of the fixes."""
        if self.edits is not None:
            return bool(self.edits.files)
        if self._plan_edits is None or self.followed is None or result.partial or self.wanted.edits != "none":
            return False
        return any(isinstance(edits := self.edits_of(fix), list) and edits for fix in self.followed.fixes)

    def edits_of(self, fix: Fix) -> list[FileEdit] | str:
        """Return the edits of the workload's own files for a kept fix, or the reason for none; computed once for each."""
        if fix.key not in self._edits:
            from kvtool.fixes.edits.edits import edits_for

            source = workload_file(self.source)
            assert source is not None
            self._edits[fix.key] = edits_for([fix], source)
        return self._edits[fix.key]
