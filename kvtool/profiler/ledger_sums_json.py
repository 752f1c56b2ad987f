"""The JSON of ledger_sums."""

from __future__ import annotations

from typing import Any

from kvtool.profiler.profile import Profile


def sums_json(profile: Profile) -> dict[str, Any] | None:
    """All rows as plain data; None where no sums were asked for."""
    if profile.by is None:
        return None
    return {
        "by": profile.by,
        "rows": [
            {
                "key": row.key,
                "requests": row.requests,
                "prompt_tokens": row.prompt_tokens,
                "hit_tokens": row.hit_tokens,
                "hit_rate": row.hit_rate,
                "lost_tokens": row.lost_tokens,
                "fates": {name: count for name, count in sorted(row.fates.items()) if count},
            }
            for row in profile.sums
        ],
    }
