"""A saved report as the object that the terminal's view is made for, so that both print the same."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from math import inf
from typing import cast

from kvtool.accounting.boundary import GroupBoundary, SizeTotals
from kvtool.accounting.decode_traffic import DecodeTraffic
from kvtool.accounting.ledger.fates import FATES
from kvtool.accounting.ledger.sums import SumRow
from kvtool.accounting.ledger.totals import GroupTotals, TurnTotals
from kvtool.accounting.quantiles import Quantiles
from kvtool.diagnose import findings as diagnosed
from kvtool.engine.config import DecodeMode
from kvtool.errors import KvtoolError
from kvtool.measure.audit import AuditResult
from kvtool.measure.audit import Flip as AuditFlip
from kvtool.measure.measured_times import DecodeTimes, MeasuredTimes
from kvtool.profiler.passes import RequestRow
from kvtool.profiler.profile import DtypeGain, Profile
from kvtool.profiler.unlock import CauseRow, GroupCauses, Unlock
from kvtool.results import report as saved
from kvtool.results.report import Report

_CONFIG_KEYS = (
    *("version", "input", "rules", "tokenizer", "seed", "capacity_blocks", "model", "accelerator", "calibration"),
    *("calibration_model", "calibration_dtype", "predicted_dtype", "tensor_parallel", "kv_cache_dtype"),
    *("measured_model", "load_format", "device"),
)
"""What the view reads of the configuration; None where a file lacks it."""
_MOST_TURNS = 1_000_000


def restore(report: Report) -> Profile:
    """The profile that the report is of; KvtoolError where its figures contradict each other.

    What a report does not hold is left out: excerpts of logs (those of files are read again).
    """
    _check(report)
    config = dict.fromkeys(_CONFIG_KEYS) | report.config
    gain = report.kv_cache_dtype
    return Profile(
        config=config,
        groups=[_group(group) for group in report.groups],
        fates=_in_order(report.fates),
        evictions=report.totals.evictions,
        preemptions=report.totals.preemptions,
        filled_blocks=report.kv_cache.filled_blocks,
        peak_used_blocks=report.kv_cache.peak_used_blocks,
        bytes_per_block=report.kv_cache.bytes_per_block,
        block_size=report.kv_cache.block_size,
        predicted_on=_quantiles(report.ttft.predicted.on),
        predicted_off=_quantiles(report.ttft.predicted.off),
        measured=_measured(report),
        findings=[finding_of(found) for found in report.findings],
        group_ttft={
            group.name: times for group in report.groups if (times := _quantiles(group.predicted_ttft)) is not None
        },
        gates=list(report.gates),
        notices=list(report.notices),
        rows=None
        if report.requests is None
        else [RequestRow(row.id, row.group, row.prompt_tokens, row.hit_tokens) for row in report.requests],
        dtype_gain=None
        if gain is None
        else DtypeGain(gain.dtype, gain.native_dtype, gain.blocks, gain.native_blocks, gain.native_hit_rate),
        refused=report.totals.refused_requests,
        first_refusal=report.totals.first_refusal or "",
        skipped_lines=report.totals.skipped_lines,
        partial=report.partial,
        notes=list(report.notes),
        decode=None if report.decode is None else _decode(report.decode),
        boundaries=[_boundary(group) for group in report.boundaries],
        causes=_causes(report),
        absent=tuple(report.absent_fates),
        by=None if report.sums is None else report.sums.by,
        sums=[]
        if report.sums is None
        else [SumRow(row.key, row.requests, row.prompt_tokens, Counter(row.fates)) for row in report.sums.rows],
        timelines=[] if report.views is None else list(report.views.timelines),
        views=report.views,
        editable=report.editable,
    )


def _check(report: Report) -> None:
    """The sums that the view relies on; a report that was edited by hand may break them."""
    groups, totals = report.groups, report.totals
    _hold(report.kv_cache.block_size >= 1, "/kv_cache/block_size", "a block holds a token at least")
    capacity = report.config.get("capacity_blocks")
    _hold(capacity is None or type(capacity) is int, "/config/capacity_blocks", "it is no whole number")
    for name in ("requests", "prompt_tokens", "hit_tokens", "reachable_tokens"):
        summed = sum(getattr(group, name) for group in groups)
        said = getattr(totals, name)
        _hold(summed == said, f"/totals/{name}", f"it is {said:,}, and its groups have {summed:,}")
    _check_fates("/fates", report.fates, totals.prompt_tokens)
    for number, group in enumerate(groups):
        at = f"/groups/{number}"
        _check_fates(f"{at}/fates", group.fates, group.prompt_tokens)
        for turn in group.turns:
            _hold(1 <= turn.turn <= _MOST_TURNS, f"{at}/turns", f"turn {turn.turn} is none")
            _hold(bool(turn.prompt_tokens), f"{at}/turns", f"turn {turn.turn} has no tokens")
    for row in report.sums.rows if report.sums is not None else []:
        _check_fates("/sums/rows", row.fates, row.prompt_tokens)
    _check_boundaries(report)
    decode, measured = report.decode, report.ttft.measured
    _hold(decode is None or bool(decode.prefix_aware_bytes_per_step), "/decode", "no step reads nothing")
    if measured is not None and measured.requests:
        _hold(bool(measured.prompt_tokens), "/ttft/measured", "requests without a token were measured")


def _check_fates(at: str, fates: saved.Fates, tokens: int) -> None:
    for fate in fates:
        _hold(fate in FATES, at, f"there is no fate `{fate}`; a newer kvtool may have written it")
    _hold(sum(fates.values()) == tokens, at, f"they sum to {sum(fates.values()):,}, not to {tokens:,} tokens")


def _check_boundaries(report: Report) -> None:
    for number, group in enumerate(report.boundaries):
        at = f"/boundaries/{number}"
        _hold(group.block_size >= 1, f"{at}/block_size", "a block holds a token at least")
        _hold(bool(group.left_over), f"{at}/left_over", "it is empty")
        for each in group.left_over:
            _hold(each.tokens < group.block_size, f"{at}/left_over", f"{each.tokens:,} tokens are more than a block")
    names = {group.name for group in report.groups}
    for cause in report.causes:
        _hold(cause.group in names, "/causes", f"there is no group `{cause.group}`")


def _hold(holds: bool, at: str, wrong: str) -> None:
    if not holds:
        raise KvtoolError(f"the result contradicts itself: {at}: {wrong}", hint="profile the workload again")


def _in_order(fates: saved.Fates) -> dict[str, int]:
    """In the order of the ladder, which decides between equals."""
    return {fate: fates[fate] for fate in FATES if fate in fates}


def _group(group: saved.Group) -> GroupTotals:
    return GroupTotals(
        requests=group.requests,
        prompt_tokens=group.prompt_tokens,
        hit_tokens=group.hit_tokens,
        reachable_tokens=group.reachable_tokens,
        request_rates=group.mean_request_hit_rate * group.requests,
        name=group.name,
        fates=Counter(_in_order(group.fates)),
        shared_prefixes=Counter({group.alignment.shared_prefix_tokens: 1}),
        turns={turn.turn - 1: TurnTotals(turn.requests, turn.prompt_tokens, turn.hit_tokens) for turn in group.turns},
    )


def _quantiles(times: saved.Quantiles | None) -> Quantiles | None:
    return None if times is None else Quantiles(times.p50, times.p90, times.p99)


def _measured(report: Report) -> MeasuredTimes | None:
    found = report.ttft.measured
    if found is None:
        return None
    tpot = None if report.decode is None else report.decode.tpot.measured
    return MeasuredTimes(
        on=_quantiles(found.on),
        off=_quantiles(found.off),
        requests=found.requests,
        prompt_tokens=found.prompt_tokens,
        hit_tokens=found.hit_tokens,
        complete=found.complete,
        reason=found.reason,
        exact=found.exact,
        reuse=_audit(found.audit),
        price=_audit(found.kv_cache_dtype_error),
        device=found.device,
        kernels=found.kernels,
        shortfall=found.shortfall,
        too_large=found.too_large_requests,
        decode=None
        if tpot is None
        else DecodeTimes(tpot.requests, tpot.tokens_mean, tpot.steps, tpot.flat, tpot.prefix_aware),
    )


def _audit(found: saved.Logits | None) -> AuditResult | None:
    if found is None:
        return None
    error = found.relative_error
    return AuditResult(
        requests=found.requests,
        tokens=found.tokens,
        max_difference=_or_infinity(found.max_difference),
        flips=[
            AuditFlip(
                flip.request,
                flip.position,
                flip.expected,
                flip.actual,
                _or_infinity(flip.margin),
                _or_infinity(flip.difference),
            )
            for flip in found.flips
        ],
        least_margin=_or_infinity(found.least_margin),
        squared_difference=1.0 if error is None else error * error,
        squared_spread=0.0 if error is None else 1.0,
    )


def _or_infinity(value: float | None) -> float:
    return inf if value is None else value


def _decode(decode: saved.Decode) -> DecodeTraffic:
    predicted = decode.tpot.predicted
    return DecodeTraffic(
        together=decode.sampled == "steps",
        samples=decode.samples,
        steps=decode.sampled_of,
        requests=decode.batch,
        tokens=decode.tokens_mean,
        flat_bytes=decode.flat_bytes_per_step,
        shared_bytes=decode.prefix_aware_bytes_per_step,
        mode=cast("DecodeMode", decode.decode_attention),
        sharing=decode.prefix_aware_share,
        flat_seconds=predicted.flat,
        shared_seconds=predicted.prefix_aware,
    )


def _boundary(group: saved.Boundary) -> GroupBoundary:
    return GroupBoundary(
        name=group.group,
        block_size=group.block_size,
        requests=group.requests,
        prompt_tokens=group.prompt_tokens,
        nothing=group.nothing_shared_requests,
        sizes={
            each.block_size: SizeTotals(each.hit_tokens, each.hit_requests, each.shared_too_short_requests)
            for each in group.sizes
        },
        remainders=Counter({each.tokens: each.requests for each in group.left_over}),
    )


def _causes(report: Report) -> list[GroupCauses]:
    groups = {group.name: group for group in report.groups}
    found: list[GroupCauses] = []
    for name, rows in groupby(report.causes, key=lambda cause: cause.group):
        group, restored = groups[name], tuple(_cause(row) for row in rows)
        tokens = sum(row.share_tokens for row in restored) + group.causes_left_out.share_tokens
        found.append(GroupCauses(name, group.prompt_tokens, tokens, restored, group.causes_left_out.causes))
    return found


def _cause(cause: saved.Cause) -> CauseRow:
    unlock = cause.unlock
    return CauseRow(
        group=cause.group,
        code=cause.code,
        kind=cause.kind,
        name=cause.name,
        part=cause.part,
        path=cause.path,
        line=cause.line,
        column=cause.column,
        line_in_text=cause.line_in_text,
        variable=cause.variable,
        logged=not cause.in_source,
        blame_tokens=cause.blame_tokens,
        share_tokens=cause.share_tokens,
        requests=cause.requests,
        distinct_values=cause.distinct_values,
        volatility_within=cause.volatility_within,
        volatility_across=cause.volatility_across,
        confidence=cause.confidence,
        unlock=None
        if unlock is None
        else Unlock(unlock.order, unlock.tier, unlock.before, unlock.after, unlock.alone, unlock.predicted),
    )


def finding_of(found: saved.Finding) -> diagnosed.Finding:
    """A saved finding as the terminal shows it, with its line where that was saved."""
    snippet = found.snippet
    return diagnosed.Finding(
        code=found.code,
        severity=found.severity,
        group=found.group,
        path=found.path,
        line=found.line,
        column=found.column,
        message=found.message,
        tokens_lost=found.tokens_lost,
        fix=found.fix,
        rerun=_rerun(found.rerun),
        excerpt="" if snippet is None else snippet.text,
        excerpt_start=0 if snippet is None else snippet.start,
        excerpt_stop=0 if snippet is None else snippet.stop,
        in_source=found.in_source,
        width=found.width,
        points=found.points,
        share=found.share_tokens,
        ttft_seconds=found.ttft_seconds,
        confidence=found.confidence,
        tier=found.tier,
        fix_key=found.fix_key,
        tried=_rerun(found.tried),
        warnings=tuple(found.warnings),
    )


def _rerun(rerun: saved.Rerun | None) -> diagnosed.Rerun | None:
    if rerun is None:
        return None
    return diagnosed.Rerun(
        rerun.group_before,
        rerun.group_after,
        rerun.total_before,
        rerun.total_after,
        rerun.group_alone,
        rerun.group_predicted,
    )
