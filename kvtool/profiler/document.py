"""The machine's view of a `Profile`: `kvtool.report/1`. No prompt text, no clock values where the run is deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.quantiles import Quantiles
from kvtool.diagnose.findings import Finding, Rerun
from kvtool.profiler.boundary_json import boundaries_json
from kvtool.profiler.ledger_sums_json import sums_json
from kvtool.profiler.profile import DtypeGain, Profile
from kvtool.profiler.quotes import snippet_of
from kvtool.profiler.unlock import GroupCauses
from kvtool.profiler.unlock_json import causes_json, left_out_json
from kvtool.results.report import SCHEMA, Report
from kvtool.results.report import Finding as SavedFinding
from kvtool.results.show_text import ShowText

if TYPE_CHECKING:
    from kvtool.measure.measured_times import MeasuredTimes


def report_of(profile: Profile, *, show_text: ShowText = "none", patches: Mapping[str, str] | None = None) -> Report:
    """The report as typed data, with as much of prompts as `show_text` says; see `document`."""
    return Report.model_validate(document(profile, show_text=show_text, patches=patches))


def document(
    profile: Profile, *, show_text: ShowText = "none", patches: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The report as plain data.

    `snippet` quotes the lines that findings are about, `full` gives them as they are, and the `patches` (`quotes.patches_of`).
    """
    causes = {group.group: group for group in profile.causes}
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "config": profile.config,
        "notes": profile.notes,
        "partial": profile.partial,
        "totals": {
            "requests": profile.total.requests,
            "prompt_tokens": profile.total.prompt_tokens,
            "hit_tokens": profile.total.hit_tokens,
            "hit_rate": profile.total.hit_rate,
            "mean_request_hit_rate": profile.total.mean_request_rate,
            "reachable_tokens": profile.total.reachable_tokens,
            "reachable_hit_rate": profile.total.reachable_rate,
            "evictions": profile.evictions,
            "preemptions": profile.preemptions,
            "refused_requests": profile.refused,
            "first_refusal": profile.first_refusal or None,
            "skipped_lines": profile.skipped_lines,
        },
        "fates": profile.fates,
        "absent_fates": list(profile.absent),
        "sums": sums_json(profile),
        "causes": causes_json(profile.causes),
        "kv_cache": {
            "block_size": profile.block_size,
            "bytes_per_block": profile.bytes_per_block,
            "filled_blocks": profile.filled_blocks,
            "peak_used_blocks": profile.peak_used_blocks,
            "reused_bytes": profile.total.hit_tokens * profile.bytes_per_block // profile.block_size,
        },
        "kv_cache_dtype": _gain(profile.dtype_gain, profile.total.hit_rate),
        "groups": [_group(group, profile, causes.get(group.name)) for group in profile.groups],
        "ttft": {
            "measured": _measured(profile.measured),
            "predicted": {"on": _quantiles(profile.predicted_on), "off": _quantiles(profile.predicted_off)},
        },
        "decode": _decode(profile),
        "boundaries": boundaries_json(profile.boundaries),
        "findings": [_finding(finding, show_text, patches) for finding in profile.findings],
        "gates": [gate.model_dump() for gate in profile.gates],
        "notices": list(profile.notices),
        "verdict": profile.verdict.outcome,
        "editable": profile.editable,
        "views": None if profile.views is None else profile.views.model_dump(),
    }
    if profile.rows is not None:
        result["requests"] = [
            {"id": row.id, "group": row.group, "prompt_tokens": row.prompt_tokens, "hit_tokens": row.hit_tokens}
            for row in profile.rows
        ]
    return result


def _group(group: GroupTotals, profile: Profile, causes: GroupCauses | None) -> dict[str, Any]:
    block_size = profile.block_size
    prefix = group.common_prefix()
    return {
        "name": group.name,
        "requests": group.requests,
        "prompt_tokens": group.prompt_tokens,
        "hit_tokens": group.hit_tokens,
        "hit_rate": group.hit_rate,
        "mean_request_hit_rate": group.mean_request_rate,
        "reachable_tokens": group.reachable_tokens,
        "reachable_hit_rate": group.reachable_rate,
        "predicted_ttft": _quantiles(profile.group_ttft.get(group.name)),
        "fates": {name: count for name, count in sorted(group.fates.items()) if count},
        "alignment": {
            "shared_prefix_tokens": prefix,
            "whole_blocks": prefix // block_size,
            "left_over_tokens": prefix % block_size,
            "lost_tokens": group.fates["partial_block"] + group.fates["last_token"],
        },
        "causes_left_out": left_out_json(causes),
        "turns": [
            {
                "turn": index + 1,
                "requests": turn.requests,
                "prompt_tokens": turn.prompt_tokens,
                "hit_tokens": turn.hit_tokens,
            }
            for index, turn in sorted(group.turns.items())
        ],
    }


def _measured(measured: MeasuredTimes | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    return {
        "on": _quantiles(measured.on),
        "off": _quantiles(measured.off),
        "requests": measured.requests,
        "prompt_tokens": measured.prompt_tokens,
        "hit_tokens": measured.hit_tokens,
        "exact": measured.exact,
        "device": measured.device,
        "complete": measured.complete,
        "audit": None if measured.reuse is None else measured.reuse.to_json(),
        "kv_cache_dtype_error": None if measured.price is None else measured.price.to_json(),
        "reason": measured.reason,
        "kernels": measured.kernels,
        "shortfall": measured.shortfall,
        "too_large_requests": measured.too_large,
    }


def _decode(profile: Profile) -> dict[str, Any] | None:
    """Of a decode step: bytes of keys and values, and seconds; None where no two requests decode together."""
    traffic = profile.decode
    if traffic is None:
        return None
    measured = profile.measured.decode if profile.measured is not None else None
    return {
        "batch": traffic.requests,
        "tokens_mean": traffic.tokens,
        "sampled": "steps" if traffic.together else "windows",
        "samples": traffic.samples,
        "sampled_of": traffic.steps,
        "flat_bytes_per_step": traffic.flat_bytes,
        "prefix_aware_bytes_per_step": traffic.shared_bytes,
        "decode_attention": traffic.mode,
        "chosen": traffic.chosen,
        "prefix_aware_share": traffic.sharing,
        "tpot": {
            "predicted": {"flat": traffic.flat_seconds, "prefix_aware": traffic.shared_seconds},
            "measured": None
            if measured is None
            else {
                "requests": measured.requests,
                "tokens_mean": measured.tokens,
                "steps": measured.steps,
                "flat": measured.flat_seconds,
                "prefix_aware": measured.sharing_seconds,
            },
        },
    }


def _gain(gain: DtypeGain | None, hit_rate: float) -> dict[str, Any] | None:
    if gain is None:
        return None
    return {
        "dtype": gain.dtype,
        "native_dtype": gain.native,
        "blocks": gain.blocks,
        "native_blocks": gain.native_blocks,
        "hit_rate": hit_rate,
        "native_hit_rate": gain.native_hit_rate,
    }


def _quantiles(quantiles: Quantiles | None) -> dict[str, float] | None:
    return None if quantiles is None else {"p50": quantiles.p50, "p90": quantiles.p90, "p99": quantiles.p99}


def _rerun(rerun: Rerun | None) -> dict[str, float | None] | None:
    if rerun is None:
        return None
    return {
        "group_before": rerun.group_before,
        "group_after": rerun.group_after,
        "total_before": rerun.total_before,
        "total_after": rerun.total_after,
        "group_alone": rerun.alone,
        "group_predicted": rerun.predicted,
    }


def saved_finding(finding: Finding, *, show_text: ShowText = "none") -> SavedFinding:
    """A finding as typed data, for one that belongs to no profile."""
    return SavedFinding.model_validate(_finding(finding, show_text, None))


def _finding(finding: Finding, show_text: ShowText, patches: Mapping[str, str] | None) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "group": finding.group,
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "width": finding.width,
        "in_source": finding.in_source,
        "message": finding.message,
        "tokens_lost": finding.tokens_lost,
        "fix": finding.fix,
        "rerun": _rerun(finding.rerun),
        "tried": _rerun(finding.tried),
        "points": finding.points,
        "share_tokens": finding.share,
        "ttft_seconds": finding.ttft_seconds,
        "confidence": finding.confidence,
        "tier": finding.tier,
        "fix_key": finding.fix_name,
        "warnings": list(finding.warnings),
        "snippet": snippet_of(finding, show_text),
        "patch": patches.get(finding.fix_key) if patches and show_text == "full" else None,
    }
