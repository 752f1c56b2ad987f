"""Fenced code in a text, by its fences alone: from one to the next, whatever is around them."""

from __future__ import annotations

import re

from kvtool.text.structure.masking import Span

_FENCE = re.compile(r"^[ \t]{0,3}+(?:```|~~~)", re.MULTILINE)


def fenced_ranges(text: str) -> list[Span]:
    """Where fenced code stands, in order; one that is never closed goes to the end."""
    fences = [found.start() for found in _FENCE.finditer(str.__str__(text))]
    return list(zip(fences[::2], [*fences[1::2], len(text)], strict=False))
