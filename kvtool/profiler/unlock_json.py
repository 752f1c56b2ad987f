"""The JSON of unlock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvtool.profiler.unlock import CauseRow, GroupCauses


def causes_json(groups: Sequence[GroupCauses]) -> list[dict[str, Any]]:
    """Every row of every group as plain data."""
    return [_row(row) for group in groups for row in group.rows]


def left_out_json(group: GroupCauses | None) -> dict[str, int]:
    """What those causes of a group cost that have no row: with it, blame and share of a group's rows sum to one number."""
    if group is None:
        return {"causes": 0, "blame_tokens": 0, "share_tokens": 0}
    return {"causes": group.others, "blame_tokens": group.others_blame, "share_tokens": group.others_share}


def _row(row: CauseRow) -> dict[str, Any]:
    unlock = row.unlock
    return {
        "group": row.group,
        "code": row.code,
        "kind": row.kind,
        "name": row.name,
        "part": row.part,
        "variable": row.variable,
        "path": row.path,
        "line": row.line,
        "column": row.column,
        "line_in_text": row.line_in_text,
        "in_source": not row.logged,
        "blame_tokens": row.blame_tokens,
        "share_tokens": row.share_tokens,
        "requests": row.requests,
        "distinct_values": row.distinct_values,
        "volatility_within": row.volatility_within,
        "volatility_across": row.volatility_across,
        "confidence": row.confidence,
        "unlock": None
        if unlock is None
        else {
            "order": unlock.number,
            "tier": unlock.tier,
            "before": unlock.before,
            "after": unlock.after,
            "alone": unlock.alone,
            "predicted": unlock.predicted,
        },
    }
