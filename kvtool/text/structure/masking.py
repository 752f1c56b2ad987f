"""Stretches of a text put out of sight of a parser, by others of the same length on the same lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLACEHOLDER = re.compile(r"\{\{[^{}\n]{0,300}\}\}|\{%[^\n]{0,300}?%\}|\{#[^\n]{0,300}?#\}")
"""What a template puts a value in place of, or does: `{{ name }}`, `{% if … %}`, `{# … #}`."""

_NOT_NEWLINE = re.compile(r"[^\n]")
Span = tuple[int, int]


def masked(text: str, spans: Iterable[Span], by: str) -> str:
    """The text with each character of these spans, in order, replaced; newlines stay."""
    pieces: list[str] = []
    at = 0
    for start, stop in spans:
        if start < at:
            continue
        pieces += [text[at:start], _NOT_NEWLINE.sub(by, text[start:stop])]
        at = stop
    return "".join([*pieces, text[at:]]) if pieces else text


def placeholders(text: str) -> list[Span]:
    """Find the placeholders and tags of a template."""
    return [found.span() for found in PLACEHOLDER.finditer(text)] if "{" in text else []


_FENCE = re.compile(r"^[ \t]{0,3}+(?:```|~~~)", re.MULTILINE)


def fenced_ranges(text: str) -> list[Span]:
    """Find fenced code, in order; one that is never closed goes to the end."""
    fences = [found.start() for found in _FENCE.finditer(str.__str__(text))]
    return list(zip(fences[::2], [*fences[1::2], len(text)], strict=False))
