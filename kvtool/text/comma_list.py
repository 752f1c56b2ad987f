"""Words between commas, as options take several."""

from __future__ import annotations


def comma_list(text: str | None) -> list[str]:
    """Split a text at commas, without space around the parts; empty parts are skipped."""
    return [part for each in (text or "").split(",") if (part := each.strip())]
