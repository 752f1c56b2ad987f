"""The JSON of boundary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvtool.accounting.boundary import GroupBoundary


def boundaries_json(groups: Iterable[GroupBoundary]) -> list[dict[str, Any]]:
    """The same as plain data; `left_over` lists how many requests have each remainder of the block size in use."""
    result = []
    for group in groups:
        edit = group.padding()
        result.append(
            {
                "group": group.name,
                "block_size": group.block_size,
                "requests": group.requests,
                "prompt_tokens": group.prompt_tokens,
                "nothing_shared_requests": group.nothing,
                "sizes": [
                    {
                        "block_size": size,
                        "hit_tokens": totals.hit_tokens,
                        "hit_requests": totals.hit_requests,
                        "shared_too_short_requests": totals.short_requests,
                    }
                    for size, totals in group.sizes.items()
                ],
                "left_over": [
                    {"tokens": tokens, "requests": count} for tokens, count in sorted(group.remainders.items())
                ],
                "edit": None
                if edit is None
                else {"add_tokens": edit.tokens, "requests_gained": edit.gained, "tokens_saved": edit.saved},
            }
        )
    return result
