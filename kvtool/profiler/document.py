"""The document of a profile: the results of the passes over a workload, put together. Every report is a view of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.ledger.sums import SumTotals
from kvtool.accounting.ledger.totals import GroupTotals, TokenTotals
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.plan import Plan
from kvtool.accounting.quantiles import quantiles
from kvtool.accounting.views.collector import ViewBook
from kvtool.profiler.fix_gains import GroupCauses
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.quotes import quoted
from kvtool.profiler.reported.money_parts import MoneySections
from kvtool.profiler.run.run_books import CounterBook, DecodeBook, RowBook, TimeBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run_model import ModelSizes
from kvtool.profiler.steps.step_book import StepBook
from kvtool.results.choices import TokensBy
from kvtool.results.finding import Finding
from kvtool.results.report import (
    Alignment,
    CausesLeftOut,
    Fates,
    Group,
    KvCache,
    KvCacheDtype,
    Report,
    SumRow,
    Sums,
    Totals,
    TurnSums,
    lost_tokens,
)
from kvtool.results.run_times import Measured, MeasuredTpot, OnOff, Ttft
from kvtool.results.show_text import ShowText
from kvtool.results.verdict_of import verdict_of

if TYPE_CHECKING:
    from kvtool.accounting.caches.provider_cache import ProviderCache

_NONE_LEFT_OUT = CausesLeftOut(causes=0, blame_tokens=0, share_tokens=0)


@dataclass(frozen=True, slots=True)
class Measurements:
    """Results of real runs on this machine: times to the first token, and of decode steps."""

    ttft: Measured | None = None
    tpot: MeasuredTpot | None = None


def made_report(
    result: RunResult,
    plan: Plan,
    *,
    groups: Sequence[GroupTotals],
    ttft_off: Sequence[float],
    findings: Sequence[Finding],
    causes: Mapping[str, GroupCauses],
    kv_cache_dtype: KvCacheDtype | None,
    skipped_lines: int,
    editable: bool,
    kept_fixes: int,
    by: TokensBy | None,
    told: MoneySections,
    pair: PairCommand | None = None,
) -> Report:
    """Return the report of a run, before anything is measured or judged, and without its configuration.

    Its findings have their lines as they were sent.
    """
    total, counts, left_out = TokenTotals.of(groups), result.counts, result.left_out
    misses, steps = result.find(MissBook), result.find(StepBook)
    times, counters, rows = result.book(TimeBook), result.book(CounterBook), result.find(RowBook)
    decode = result.find(DecodeBook)
    sizes = ModelSizes.of(times.models, plan)
    counted_only = told.reported is not None and told.predicted is None and total.prompt_tokens <= total.requests
    on, off = ((), ()) if counted_only else (times.on, ttft_off)  # a token is in place of each prompt
    too_short = _below_minimum(counts.hosted, misses)
    return Report(
        config={},
        notes=[],
        partial=result.partial,
        totals=Totals(
            requests=total.requests,
            prompt_tokens=total.prompt_tokens,
            hit_tokens=total.hit_tokens,
            hit_rate=total.hit_rate,
            mean_request_hit_rate=total.mean_request_rate,
            reachable_tokens=total.reachable_tokens,
            reachable_hit_rate=total.reachable_rate,
            evictions=counts.evictions,
            preemptions=counts.preemptions,
            refused_requests=left_out.refused,
            first_refusal=left_out.first_refusal or None,
            skipped_lines=skipped_lines,
            unpredicted_requests=sum(left_out.unpredicted.values()),
            uncached_requests=sum(left_out.uncached.values()),
            uncounted_requests=counters.uncounted,
            uncounted_tokens=counters.uncounted_tokens,
            short_requests=counters.short,
        ),
        fates=result.ledger.fates(),
        absent_fates=list(result.ledger.absent()),
        sums=None if by is None else Sums(by=by, rows=[_sum(row) for row in result.ledger.sums()]),
        causes=[row for group in causes.values() for row in group.rows],
        kv_cache=KvCache(
            block_size=plan.engine.block_size,
            bytes_per_block=plan.bytes_per_block if sizes.one else None,
            filled_blocks=counts.filled_blocks,
            peak_used_blocks=counts.peak_used_blocks,
            reused_bytes=sizes.reused_bytes,
        ),
        kv_cache_dtype=kv_cache_dtype,
        groups=[_group(group, times, plan.base_block, causes, told) for group in groups],
        ttft=Ttft(measured=None, predicted=OnOff(on=quantiles(on), off=quantiles(off))),
        decode=decode.decode if decode is not None and sizes.one else None,
        boundaries=[group.boundary() for group in result.book(BoundaryBook)],
        findings=[one for one in findings if not (too_short and one.tokens_lost)],  # no edit gains there
        gates=[],
        verdict=verdict_of([], partial=result.partial).outcome,
        views=result.book(ViewBook).views(result.ledger),
        kept_fixes=kept_fixes,
        editable=editable,
        below_minimum=too_short,
        requests=None if rows is None else rows.rows,
        reported=told.reported,
        predicted=told.predicted,
        difference=told.difference,
        money=told.money,
        misses=None if misses is None else misses.misses(),
        steps=None if steps is None else steps.steps(pair),
    )


def with_measurements(report: Report, measured: Measurements, *, partial: bool) -> Report:
    """Return the report with the results of real runs; `partial`: they were interrupted."""
    ttft = report.ttft.model_copy(update={"measured": measured.ttft})
    decode = report.decode
    if decode is not None:
        decode = decode.model_copy(update={"tpot": decode.tpot.model_copy(update={"measured": measured.tpot})})
    verdict = verdict_of([], partial=partial).outcome
    return report.model_copy(update={"ttft": ttft, "decode": decode, "partial": partial, "verdict": verdict})


def saved_report(report: Report, *, show_text: ShowText = "none", patches: Mapping[str, str] | None = None) -> Report:
    """Return the report with only as much prompt text as may be saved.

    `snippet` quotes the lines that findings are about, `full` gives whole lines and the `patches` (`patches.patches_of`).
    """
    return report.model_copy(update={"findings": [quoted(one, show_text, patches) for one in report.findings]})


def _below_minimum(cache: ProviderCache | None, misses: MissBook | None) -> int:
    """Return the provider's minimum, where every prompt is shorter; 0 where the log does not say how long they are."""
    if cache is None or (misses is not None and (not misses.predictable or misses.total.read)):
        return 0
    return cache.least or 0


def _group(
    group: GroupTotals, times: TimeBook, block_size: int, causes: Mapping[str, GroupCauses], told: MoneySections
) -> Group:
    prefix = group.common_prefix()
    return Group(
        name=group.name,
        requests=group.requests,
        prompt_tokens=group.prompt_tokens,
        hit_tokens=group.hit_tokens,
        hit_rate=group.hit_rate,
        mean_request_hit_rate=group.mean_request_rate,
        reachable_tokens=group.reachable_tokens,
        reachable_hit_rate=group.reachable_rate,
        predicted_ttft=quantiles(times.groups.get(group.name, ())),
        fates=_with_tokens(group.fates),
        alignment=Alignment(
            shared_prefix_tokens=prefix,
            whole_blocks=prefix // block_size,
            left_over_tokens=prefix % block_size,
            lost_tokens=group.in_part_blocks,
        ),
        causes_left_out=causes[group.name].left_out if group.name in causes else _NONE_LEFT_OUT,
        turns=[
            TurnSums(
                turn=index + 1,
                requests=turn.requests,
                prompt_tokens=turn.prompt_tokens,
                hit_tokens=turn.hit_tokens,
            )
            for index, turn in sorted(group.turns.items())
        ],
        provider=told.groups.get(group.name),
    )


def _sum(row: SumTotals) -> SumRow:
    return SumRow(
        key=row.key,
        requests=row.requests,
        prompt_tokens=row.prompt_tokens,
        hit_tokens=row.hit_tokens,
        hit_rate=row.hit_rate,
        lost_tokens=lost_tokens(row),
        fates=_with_tokens(row.fates),
    )


def _with_tokens(fates: Fates) -> Fates:
    """Return the items with any tokens."""
    return {name: count for name, count in sorted(fates.items()) if count}
