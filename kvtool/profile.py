"""The profile of a workload: one document that every report is a view of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtool.accounting import Accountant, PassResult, Plan, RequestRow
from kvtool.diagnose.causes import Cause
from kvtool.diagnose.findings import (
    Finding,
    Rerun,
    is_candidate,
    is_declared_stable,
    run_findings,
    volatile_finding,
)
from kvtool.errors import KvtoolError
from kvtool.interrupts import Uninterrupted
from kvtool.jobs import JobMaker
from kvtool.ledger import GroupTotals, Totals
from kvtool.progress import Progress
from kvtool.render import Renderer
from kvtool.rewrite.move import destination, movers
from kvtool.text import Origin
from kvtool.workload.turn import Source, Turn

if TYPE_CHECKING:
    from kvtool.measure import Measured

Locate = Callable[[Origin, int], tuple[int, int]]
QUANTILES = (0.5, 0.9, 0.99)

_MOST_FIXES = 4
"""Volatile lines of a group that are moved together at most; each takes one more pass."""
_NEXT_FIX = 0.05
"""Share of a group's prompt tokens that the next line must block to be worth another pass."""
_MORE = 0.005
"""By how much a hit rate must rise for one more fix to be asked of anybody."""


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


def _worth_keeping(rates: Sequence[float]) -> int:
    """How many fixes to keep, of hit rates with the first 0, 1, … of them: the fewest that come close to the best."""
    best = max(rates)
    return 0 if best <= rates[0] else next(n for n, rate in enumerate(rates) if n and rate >= best - _MORE)


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
    ) -> None:
        """`count_skipped` tells how many bad lines the last pass over the source left out."""
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
            per_request=transform is None and explain and self.demands.per_request,
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
            skipped_lines=skipped,
            partial=result.partial,
        )
        profile.gates = self._gates(profile)
        return profile

    def _advise(self, result: PassResult) -> list[Finding]:
        """Move the costliest slot of each group behind the shared text and run again; then what is in the way next, too.

        One fix alone often gives nothing, as the next volatile line stands right behind it. Kept is what won.
        """
        groups = {group.name: group for group in result.ledger.totals()}
        chains: dict[str, list[Cause]] = {}
        rates = {name: [group.hit_rate] for name, group in groups.items()}  # with the first 0, 1, … causes moved
        last = result
        for round_ in range(_MOST_FIXES):
            found = {name: self._next_cause(last, group, chains.get(name, [])) for name, group in groups.items()}
            if not any(found.values()):
                break
            for name, cause in found.items():
                if cause is not None:
                    chains.setdefault(name, []).append(cause)
            last = self._moved(chains, explain=round_ + 1 < _MOST_FIXES)
            if last.partial:
                result.partial = True
                return []
            for group in last.ledger.totals():
                if found.get(group.name) is not None:
                    rates[group.name].append(group.hit_rate)
        kept = {name: chain[: _worth_keeping(rates[name])] for name, chain in chains.items()}
        for name, chain in chains.items():
            if not kept[name] and is_declared_stable(chain[0]):
                kept[name] = chain[:1]  # told whether or not moving it wins anything
        kept = {name: chain for name, chain in kept.items() if chain}
        if kept and kept != chains:
            last = self._moved(kept, explain=False)
            if last.partial:
                result.partial = True
                return []
        return self._volatile_findings(groups, kept, last)

    def _moved(self, chains: dict[str, list[Cause]], *, explain: bool) -> PassResult:
        causes = [cause for chain in chains.values() for cause in chain]
        return self._account("trying the fix", self.plan, explain=explain, transform=movers(causes))

    @staticmethod
    def _next_cause(result: PassResult, group: GroupTotals, chain: list[Cause]) -> Cause | None:
        """The costliest cause that is left; behind the first one it must be worth an error."""
        seen = [cause.slot for cause in chain]
        least = _NEXT_FIX if chain else 0.0
        for cause in result.causes.of_group(group.name):
            if is_candidate(cause, group) and cause.slot not in seen and cause.blocked >= least * group.prompt_tokens:
                return cause
        return None

    def _volatile_findings(
        self, groups: dict[str, GroupTotals], kept: dict[str, list[Cause]], moved: PassResult
    ) -> list[Finding]:
        after = {group.name: group for group in moved.ledger.totals()}
        before_all, after_all = Totals.of(groups.values()).hit_rate, Totals.of(after.values()).hit_rate
        findings = []
        for name, chain in kept.items():
            if name not in after:
                continue
            rerun = Rerun(groups[name].hit_rate, after[name].hit_rate, before_all, after_all)
            lost = chain[0].blocked
            for number, cause in enumerate(chain):
                lost = min(lost, cause.blocked)  # they stand in the way of the same tokens, one behind the other
                finding = volatile_finding(
                    cause,
                    rerun,
                    tokens_lost=lost,
                    place=self._place(cause),
                    block_size=self.plan.engine.block_size,
                    number=number,
                    together=len(chain),
                    destination=destination(cause.slot),
                )
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
