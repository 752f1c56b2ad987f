"""Words between commas, as options take several."""

from __future__ import annotations


def comma_list(text: str | None) -> list[str]:
    """What stands between commas, without space around it; what is empty is passed over."""
    return [part for each in (text or "").split(",") if (part := each.strip())]
