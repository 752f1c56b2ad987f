"""Findings: what costs hits, where it stands, and what fixing it gave when it was tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from kvtool.diagnose.causes import Cause
from kvtool.diagnose.classify import OTHER
from kvtool.ledger.totals import GroupTotals

Severity = Literal["error", "warning", "info"]

_ERROR_POINTS = 0.05
_WARNING_POINTS = 0.01
_WORTH_TELLING = 0.01
"""Share of a group's prompt tokens below which a loss is not worth a finding of its own."""
_MUCH = 0.2
"""Share of a group's prompt tokens from which a loss is told even if the fix that was tried won nothing."""
_NO_GAIN = (
    "moving its line to the end wins nothing (measured by running again): part the line, so that the value stands apart "
    "from the text that is shared"
)


@dataclass(frozen=True, slots=True)
class Rerun:
    """Hit rates of the group and of all, measured by running the engine again on the changed prompts."""

    group_before: float
    group_after: float
    total_before: float
    total_after: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosis. `message` never quotes a prompt; `excerpt` does, and is for the terminal only."""

    code: str
    severity: Severity
    group: str
    path: str
    line: int
    column: int
    message: str
    tokens_lost: int
    fix: str
    rerun: Rerun | None = None
    excerpt: str = ""
    excerpt_start: int = 0
    excerpt_stop: int = 0
    in_source: bool = False
    """Whether path, line and column point into text that people edit (a template, a prompt file), not into a log."""
    width: int = 1


def is_candidate(cause: Cause, group: GroupTotals) -> bool:
    """Whether a cause is worth a rerun: it costs something, and it is not simply what a user wrote."""
    if cause.requests < 2 or cause.blocked < _WORTH_TELLING * group.prompt_tokens or cause.distinct < 2:
        return False
    slot = cause.slot
    if slot.logged:  # only what has a name can be found again in a log, and a recorded answer cannot be rewritten
        return cause.kind is not OTHER and not slot.part.endswith("(assistant)")
    named = slot.variable is not None or cause.kind is not OTHER
    return named or not slot.part.endswith("(user)")


def is_declared_stable(cause: Cause) -> bool:
    """Whether the author said that this text does not vary."""
    return cause.origin is not None and cause.origin.stable is True


def severity_of(points: float) -> Severity:
    """By measured gain, never by pattern."""
    return "error" if points >= _ERROR_POINTS else "warning" if points >= _WARNING_POINTS else "info"


def volatile_finding(
    cause: Cause,
    rerun: Rerun,
    *,
    place: tuple[str, int, int],
    block_size: int,
    tokens_lost: int,
    number: int = 0,
    together: int = 1,
    destination: str = "the end of the prompt",
) -> Finding | None:
    """The finding of a cause whose line was moved to the end in a rerun; None where that won nothing.

    It was cause `number` (from 0) of `together` that were moved in that rerun, each found with those before it moved.
    """
    gain = rerun.group_after - rerun.group_before
    declared = is_declared_stable(cause)
    if gain <= 0 and not declared:
        return None
    claim = "stands in a segment declared stable" if declared else "stands before shared text"
    if number:
        claim += " next, once the line above is moved" if number == 1 else " next, once the lines above are moved"
    together_text = f" ({together} moves together)" if together > 1 else ""
    return replace(
        _described(cause, claim, place=place, block_size=block_size),
        code="KV103" if declared else cause.kind.code,
        severity="error" if declared else severity_of(gain),
        tokens_lost=tokens_lost,
        fix=f"move its line behind the shared text, to {destination}{together_text}",
        rerun=rerun,
    )


def no_gain_finding(
    cause: Cause, group: GroupTotals, *, place: tuple[str, int, int], block_size: int
) -> Finding | None:
    """The finding of a cause that blocks much, although moving its line won nothing in a rerun; None where it blocks little."""
    if cause.blocked < _MUCH * group.prompt_tokens:
        return None
    claim = "stands before shared text"
    return replace(_described(cause, claim, place=place, block_size=block_size), fix=_NO_GAIN)


def _described(cause: Cause, claim: str, *, place: tuple[str, int, int], block_size: int) -> Finding:
    """What and where a cause is, as information."""
    what = cause.kind.name if cause.kind is not OTHER else "text that varies"
    subject = f"variable `{cause.slot.variable}` ({what})" if cause.slot.variable else what
    values = f"{cause.distinct:,} values, in the way of {cause.requests:,} requests"
    where = f"token {cause.first_token:,}, block {cause.first_token // block_size:,}"
    path, line, column = place
    return Finding(
        code=cause.kind.code,
        severity="info",
        group=cause.group,
        path=path,
        line=line,
        column=column,
        message=f"{subject} {claim}: {values}, first at {where}",
        tokens_lost=cause.blocked,
        fix="",
        excerpt=cause.excerpt,
        excerpt_start=cause.value_start,
        excerpt_stop=cause.value_stop,
        in_source=not cause.slot.logged and line > 0,
        width=cause.origin.width
        if cause.slot.variable and cause.origin is not None
        else cause.value_stop - cause.value_start,
    )


_RUN = (
    ("KV301", "evicted", "evicted before reuse", "raise --capacity; the reachable rate is that of an unlimited cache"),
    (
        "KV302",
        "isolated",
        "a cache salt keeps tenants from sharing this prefix",
        "a decision about security, not about speed",
    ),
    (
        "KV303",
        "in_flight",
        "requests of one prefix start together, before it is computed",
        "send one request first",
    ),
)
"""What a fate leads to: code, fate, message and fix."""


def run_findings(groups: Iterable[GroupTotals], *, path: str, block_size: int) -> list[Finding]:
    """What the run itself shows: evictions, salts, cold starts, prefixes too short to fill a block."""
    findings: list[Finding] = []
    for group in groups:
        for code, fate, message, fix in _RUN:
            tokens = group.fates[fate]
            share = tokens / group.prompt_tokens if group.prompt_tokens else 0.0
            if share >= _WORTH_TELLING:
                severity = "info" if code == "KV302" else severity_of(share)  # nobody should trade security for speed
                findings.append(Finding(code, severity, group.name, path, 0, 0, message, tokens, fix))
        shared = group.common_prefix()
        if group.requests > 1 and block_size <= 4 * shared < 4 * block_size and not group.hit_tokens:
            message = f"the shared prefix of {shared} tokens is shorter than a block of {block_size}"
            lost = shared * (group.requests - 1)
            fix = "merge the stable parts at the front"
            findings.append(Finding("KV203", "info", group.name, path, 0, 0, message, lost, fix))
    return findings
