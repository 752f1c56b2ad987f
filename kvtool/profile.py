"""The profile of a workload: one document that every report is a view of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtool.accounting import Accountant, PassResult, Plan, RequestRow
from kvtool.diagnose.causes import Cause
from kvtool.diagnose.findings import Finding, Rerun, is_candidate, run_findings, volatile_finding
from kvtool.errors import KvtoolError
from kvtool.interrupts import Uninterrupted
from kvtool.jobs import JobMaker
from kvtool.ledger import GroupTotals, Totals
from kvtool.progress import Progress
from kvtool.render import Renderer
from kvtool.rewrite.move import movers
from kvtool.text import Origin
from kvtool.workload.turn import Source, Turn

if TYPE_CHECKING:
    from kvtool.measure import Measured

Locate = Callable[[Origin, int], tuple[int, int]]
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """p50, p90 and p99 of a set of times, in seconds."""

    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Quantiles | None:
        """None where there are none."""
        if not len(seconds):
            return None
        return cls(*(float(value) for value in np.quantile(np.asarray(seconds), QUANTILES)))


@dataclass(frozen=True, slots=True)
class Gate:
    """A demand on a hit rate and how it fared; `group` None is the whole workload."""

    group: str | None
    minimum: float
    actual: float

    @property
    def passed(self) -> bool:
        return self.actual >= self.minimum


@dataclass(slots=True)
class Profile:
    """A finished run as data."""

    config: dict[str, str | int | float | bool | None]
    groups: list[GroupTotals]
    fates: dict[str, int]
    evictions: int
    preemptions: int
    filled_blocks: int
    peak_used_blocks: int
    bytes_per_block: int
    block_size: int
    predicted_on: Quantiles | None
    predicted_off: Quantiles | None
    measured: Measured | None
    findings: list[Finding]
    gates: list[Gate]
    rows: list[RequestRow] | None
    refused: int = 0
    first_refusal: str = ""
    skipped_lines: int = 0
    partial: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> Totals:
        """All groups together."""
        return Totals.of(self.groups)

    @property
    def failed_gates(self) -> list[Gate]:
        return [gate for gate in self.gates if not gate.passed]

    @property
    def verdict(self) -> str:
        """`partial` (interrupted: no judgement), `fail`, `pass`, or `none` where nothing was demanded."""
        if self.partial:
            return "partial"
        return "fail" if self.failed_gates else "pass" if self.gates else "none"


@dataclass(frozen=True, slots=True)
class Demands:
    """What is asked of the profile beside the numbers."""

    min_hit_rate: float | None = None
    group_gates: dict[str, float] = field(default_factory=dict)
    measure_budget: float = 20.0
    advice: bool = True
    per_request: bool = False


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
    ) -> None:
        self.source = source
        self.renderer = renderer
        self.plan = plan
        self.demands = demands
        self.progress = progress
        self.locate = locate
        self.path = path

    def _account(
        self,
        stage: str,
        plan: Plan,
        *,
        explain: bool = False,
        transform: Callable[[Turn], Turn] | None = None,
        unlimited_hits: dict[tuple[str, str, int], int] | None = None,
        keep_hits: bool = False,
    ) -> PassResult:
        self.progress.stage(stage)
        maker = JobMaker(self.renderer, seed=plan.seed, transform=transform)
        accountant = Accountant(
            plan,
            maker,
            progress=self.progress,
            explain=explain,
            per_request=explain and self.demands.per_request,
            unlimited_hits=unlimited_hits,
            keep_hits=keep_hits,
        )
        return accountant.run(self.source)

    def run(self) -> Profile:
        """Account, advise, measure; KvtoolError where there is nothing to profile."""
        plan = self.plan
        together = not plan.one_at_a_time and plan.rules == "vllm"
        unlimited = None
        if together and plan.engine.num_blocks is not None:
            endless = replace(plan, engine=replace(plan.engine, num_blocks=None))
            first = self._account("unlimited cache", endless, keep_hits=True)
            if first.partial:
                raise KeyboardInterrupt  # there is nothing to show yet
            unlimited = first.hits
        result = self._account("accounting", plan, explain=True, unlimited_hits=unlimited)
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
        measured = None
        if self.demands.measure_budget > 0 and not result.partial:
            try:
                measured = self._measure()
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
            bytes_per_block=plan.latency.geometry.kv_bytes_per_token() * plan.engine.block_size,
            block_size=plan.engine.block_size,
            predicted_on=Quantiles.of(result.ttft_on),
            predicted_off=Quantiles.of(off),
            measured=measured,
            findings=sorted(findings, key=lambda finding: -finding.tokens_lost),
            gates=[],
            rows=result.rows if self.demands.per_request else None,
            refused=result.refused,
            first_refusal=result.first_refusal,
            partial=result.partial,
        )
        profile.gates = self._gates(profile)
        return profile

    def _advise(self, result: PassResult) -> list[Finding]:
        """Move the costliest slot of each group behind the shared text, run again, and tell what that gave."""
        groups = {group.name: group for group in result.ledger.totals()}
        chosen: list[Cause] = []
        for name, group in groups.items():
            candidates = [cause for cause in result.causes.of_group(name) if is_candidate(cause, group)]
            chosen += candidates[:1]
        if not chosen:
            return []
        again = self._account("trying the fix", self.plan, transform=movers(chosen))
        if again.partial:
            result.partial = True
            return []
        after = {group.name: group for group in again.ledger.totals()}
        before_all, after_all = Totals.of(groups.values()).hit_rate, Totals.of(after.values()).hit_rate
        findings = []
        for cause in chosen:
            if cause.group not in after:
                continue
            rerun = Rerun(groups[cause.group].hit_rate, after[cause.group].hit_rate, before_all, after_all)
            finding = volatile_finding(cause, rerun, place=self._place(cause), block_size=self.plan.engine.block_size)
            if finding is not None:
                findings.append(finding)
        return findings

    def _place(self, cause: Cause) -> tuple[str, int, int]:
        if cause.origin is None:
            return self.path, 0, 0
        line, column = self.locate(cause.origin, cause.offset)
        return cause.origin.path, line, column

    def _measure(self) -> Measured:
        with Uninterrupted():
            from kvtool.measure import Measurement  # torch: two seconds that accounting alone does not need

        self.progress.stage("measuring")
        maker = JobMaker(self.renderer, seed=self.plan.seed)
        measurement = Measurement(
            self.plan.engine,
            maker,
            budget=self.demands.measure_budget,
            limit=self.plan.limit,
            progress=self.progress,
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
