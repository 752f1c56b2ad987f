"""Profile a workload: the passes that it takes, and their results put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.accounting import Accountant, Hits, PassResult, Plan
from kvtool.advice import Advisor, Locate
from kvtool.decode_traffic import DecodeTraffic
from kvtool.diagnose.findings import Finding, run_findings
from kvtool.engine.config import EngineConfig
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.errors import KvtoolError
from kvtool.events_out import EventWriter
from kvtool.interrupts import uninterrupted
from kvtool.jobs import JobMaker
from kvtool.ledger.totals import Totals
from kvtool.measure_options import MeasureOptions
from kvtool.metrics import Metrics
from kvtool.profile import Demands, DtypeGain, Gate, Profile, Quantiles
from kvtool.progress import Progress
from kvtool.render import Renderer
from kvtool.workload.turn import Source, Turn

if TYPE_CHECKING:
    from kvtool.measure import Measured


class Profiler:
    """Runs the passes over one source and puts their results together."""

    def __init__(
        self,
        source: Source,
        renderer: Renderer,
        plan: Plan,
        demands: Demands,
        *,
        progress: Progress,
        locate: Locate,
        path: str,
        count_skipped: Callable[[], int] = lambda: 0,
        measure: MeasureOptions | None = None,
        native_engine: EngineConfig | None = None,
        events: EventWriter | None = None,
    ) -> None:
        """`count_skipped` tells how many bad lines the last pass over the source left out.

        `measure` asks for a real run, `native_engine` for another pass with a KV cache in the model's own dtype, and `events` gets
        what happens to the cache in the main pass.
        """
        self.measure = measure
        self.native_engine = native_engine
        self.events = events
        self.metrics: Metrics | None = None
        self.source = source
        self.renderer = renderer
        self.plan = plan
        self.demands = demands
        self.progress = progress
        self.locate = locate
        self.path = path
        self.count_skipped = count_skipped

    def _account(
        self,
        stage: str,
        plan: Plan,
        *,
        explain: bool = False,
        transform: Callable[[Turn], Turn] | None = None,
        unlimited_hits: Hits | None = None,
        keep_hits: bool = False,
        events: EventWriter | None = None,
    ) -> PassResult:
        self.progress.stage(stage)
        maker = JobMaker(self.renderer, seed=plan.seed)
        accountant = Accountant(
            plan,
            maker,
            progress=self.progress,
            explain=explain,
            per_request=transform is None and explain and self.demands.per_request,
            unlimited_hits=unlimited_hits,
            keep_hits=keep_hits,
            rewrite=transform,
            events=events,
            look_at_decode=transform is None and explain,
        )
        return accountant.run(self.source)

    def run(self) -> Profile:
        """Account, advise, measure; KvtoolError where there is nothing to profile."""
        plan = self.plan
        if self.measure is not None:
            self._check_measure(self.measure)
        together = not plan.one_at_a_time and plan.rules == "vllm"
        unlimited = None
        if together and plan.engine.num_blocks is not None:
            endless = replace(plan, engine=replace(plan.engine, num_blocks=None))
            first = self._account("unlimited cache", endless, keep_hits=True)
            if first.partial:
                raise KeyboardInterrupt  # there is nothing to show yet
            unlimited = first.hits
        result = self._account("accounting", plan, explain=True, unlimited_hits=unlimited, events=self.events)
        skipped = self.count_skipped()
        if not any(group.requests for group in result.ledger.totals()):
            if result.partial:
                raise KeyboardInterrupt  # there is nothing to show yet
            reason = f"; {result.first_refusal}" if result.refused else ""
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
        groups = list(result.ledger.totals())
        findings = run_findings(groups, path=self.path, block_size=plan.engine.block_size)
        if self.demands.advice and not result.partial:
            advice = self._advise(result)
            explained = {finding.group for finding in advice}
            findings = advice + [item for item in findings if item.code != "KV203" or item.group not in explained]
        gain = self._dtype_gain(result) if not result.partial else None
        measured = None
        if self.measure is not None and not result.partial:
            try:
                measured = self._measure(self.measure, result.decode)
                result.partial = measured.interrupted
            except KeyboardInterrupt:  # while the model was made
                result.partial = True
        profile = Profile(
            config={},
            groups=groups,
            fates=result.ledger.fates(),
            evictions=result.evictions,
            preemptions=result.preemptions,
            filled_blocks=result.filled_blocks,
            peak_used_blocks=result.peak_used_blocks,
            bytes_per_block=plan.bytes_per_block,
            block_size=plan.engine.block_size,
            predicted_on=Quantiles.of(result.ttft_on),
            predicted_off=Quantiles.of(off),
            measured=measured,
            findings=sorted(findings, key=lambda finding: -finding.tokens_lost),
            gates=[],
            rows=result.rows if self.demands.per_request else None,
            refused=result.refused,
            first_refusal=result.first_refusal,
            dtype_gain=gain,
            skipped_lines=skipped,
            partial=result.partial,
            decode=result.decode,
        )
        profile.gates = self._gates(profile)
        self.metrics = self._metrics(result, profile)
        return profile

    def _dtype_gain(self, result: PassResult) -> DtypeGain | None:
        """How the workload fares with the model's own dtype in the memory that the chosen one has."""
        native, blocks = self.native_engine, self.plan.engine.num_blocks
        if native is None or native.num_blocks is None or blocks is None:
            return None
        other = self._account("native KV dtype", replace(self.plan, engine=native))
        result.partial = other.partial
        rate = None if other.partial else Totals.of(other.ledger.totals()).hit_rate
        return DtypeGain(self.plan.kv_cache_dtype, find_kv_dtype(AUTO).name, blocks - 1, native.num_blocks - 1, rate)

    def _metrics(self, result: PassResult, profile: Profile) -> Metrics:
        total, blocks = profile.total, self.plan.engine.num_blocks
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
            kv_cache_usage=result.peak_used_blocks / (blocks - 1) if blocks is not None and engine_ran else None,
        )

    def _advise(self, result: PassResult) -> list[Finding]:
        def again(transform: Callable[[Turn], Turn], explain: bool) -> PassResult:
            return self._account("trying the fix", self.plan, explain=explain, transform=transform)

        block_size = self.plan.engine.block_size
        findings = Advisor(result, again, locate=self.locate, path=self.path, block_size=block_size).findings()
        result.partial = findings is None
        return findings or []

    @staticmethod
    def _check_measure(how: MeasureOptions) -> None:
        """EngineError for a device or a model that cannot be had: better now than after all the accounting."""
        if how.model is None and how.device in ("auto", "cpu"):
            return
        with uninterrupted():
            from kvtool.engine.model.device import find_device  # torch
            from kvtool.engine.model.weights import check_model

        device = find_device(how.device)
        if how.model is not None:
            check_model(how.model, dtype=how.dtype, load_format=how.load_format, device=device)

    def _measure(self, how: MeasureOptions, decode: DecodeTraffic | None) -> Measured:
        with uninterrupted():
            from kvtool.measure import Measurement  # torch: two seconds that accounting alone does not need

        self.progress.stage("measuring")
        maker = JobMaker(self.renderer, seed=self.plan.seed)
        measurement = Measurement(
            self.plan.engine,
            maker,
            how,
            limit=self.plan.limit,
            progress=self.progress,
            decode_together=round(decode.requests) if decode is not None else 0,
        )
        return measurement.run(self.source)

    def _gates(self, profile: Profile) -> list[Gate]:
        gates = [
            Gate(group.name, self.demands.group_gates[group.name], group.hit_rate)
            for group in profile.groups
            if group.name in self.demands.group_gates
        ]
        if self.demands.min_hit_rate is not None:
            gates.append(Gate(None, self.demands.min_hit_rate, profile.total.hit_rate))
        return gates
