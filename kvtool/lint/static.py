"""Findings in templates, where no traffic tells what varies: severity from the constant text that stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvtool.diagnose.codes import find_entry
from kvtool.diagnose.severity import severity_of
from kvtool.lint.skeleton import Behind, Found, Hole, Node, TemplatePlace, holes
from kvtool.lint.volatile import JSON_KEYS
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, Snippet

BY_NAME = 0.5
"""The confidence of what only a name says."""
_LONG_LINE = 1500
_AROUND = 60


def static_findings(
    path: str,
    text: str,
    prompts: Iterable[Iterable[Node]],
    count: Callable[[str], int],
    *,
    block_size: int,
    least: int,
) -> list[Finding]:
    """The findings of the prompts of one file, by place; a place that several prompts use counts where it is worst.

    `count` gives the tokens of a text; with fewer than `least` tokens of constant text behind it, nothing is told.
    """
    worst: dict[tuple[int, int, str], Found] = {}
    for nodes in prompts:
        for found in holes(nodes, count):
            hole = found.hole
            key = (hole.spot.line, hole.spot.column, hole.kind.code)
            if not hole.leads and found.behind.tokens < least:
                continue
            if key not in worst or _badness(worst[key]) < _badness(found):
                worst[key] = found
    return [_finding(path, worst[key], block_size, text) for key in sorted(worst)]


def _finding(path: str, found: Found, block_size: int, text: str) -> Finding:
    hole, behind = found.hole, found.behind
    blocks = behind.tokens // block_size
    about = "about" if behind.sure == behind.tokens else "up to"
    amount = f"{about} {behind.tokens:,} tokens ({blocks:,} {'block' if blocks == 1 else 'blocks'}) of constant text"
    if hole.leads:
        amount = "the whole conversation"
    remedies = [remedy for remedy in find_entry(hole.kind.code).remedies if remedy.tier is not None]
    remedy = min(remedies, key=lambda one: one.tier or "")  # the safest; of equals the first
    excerpt, start = _excerpt(text, hole.spot)
    return Finding.of(
        code=hole.kind.code,
        severity=_severity(hole, behind, found.prompt),
        group="",
        path=path,
        line=hole.spot.line,
        column=hole.spot.column,
        message=f"{hole.what} ({hole.kind.name}{'' if hole.certain else ', by its name'}) {_claim(hole)} {amount}",
        tokens_lost=behind.tokens,
        fix=remedy.what,
        snippet=Snippet.of(excerpt, start, start + hole.spot.width),
        in_source=True,
        width=hole.spot.width,
        tier=remedy.tier,
        confidence=1.0 if hole.certain else BY_NAME,
    )


def _claim(hole: Hole) -> str:
    if hole.kind is JSON_KEYS:
        return "keeps the order in which keys were added, and stands before"
    return "gives another order in another process, before" if hole.order else "stands before"


def _excerpt(text: str, spot: TemplatePlace) -> tuple[str, int]:
    """A part of a long line around the place, and where it begins in it; short lines are read from the file."""
    if spot.column < _LONG_LINE:
        return "", 0
    start = 0
    for _ in range(spot.line - 1):
        start = text.find("\n", start) + 1
    start += spot.column - 1 - _AROUND
    stop = text.find("\n", start)
    return text[start : min(start + 4 * _AROUND, stop if stop >= 0 else len(text))], _AROUND


def _severity(hole: Hole, behind: Behind, prompt: int) -> Severity:
    """By the constant text behind it, out of all of the prompt's (`diagnose.severity`)."""
    if hole.minor:
        return "info"
    return "warning" if hole.leads else severity_of(behind.tokens, prompt)


def _badness(found: Found) -> tuple[int, bool, int]:
    severity = _severity(found.hole, found.behind, found.prompt)
    return ("info", "warning", "error").index(severity), found.hole.certain, found.behind.tokens
