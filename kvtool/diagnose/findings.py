"""Findings: what costs hits, where it stands, and what fixing it gave when it was tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xxhash import xxh64_hexdigest

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes import Cause
from kvtool.diagnose.codes.kv103 import KV103
from kvtool.diagnose.codes.kv201 import OTHER
from kvtool.results.choices import Severity
from kvtool.text.traced import Origin

Locate = Callable[[Origin, int], tuple[int, int]]
"""Line and column in the file of a character of an origin's text."""

_ERROR_POINTS = 0.05
_WARNING_POINTS = 0.01
WORTH_TELLING = 0.01
"""Share of a group's prompt tokens below which a loss is not worth a finding of its own."""
_MUCH = 0.2
"""Share of a group's prompt tokens from which a loss is told even if no fix that was tried won anything."""
_CLAIM = "stands before shared text"


@dataclass(frozen=True, slots=True)
class Rerun:
    """Hit rates of the group and of all, measured by running the engine again on the changed prompts.

    `alone` is the group's with nothing but this fix, `predicted` what the alignment of the prompts promised for it and the fixes
    before it.
    """

    group_before: float
    group_after: float
    total_before: float
    total_after: float
    alone: float | None = None
    predicted: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosis. `message` never quotes a prompt; `excerpt` does, and is for the terminal only.

    `points` is the part of the group's prompt tokens that it costs, `share` its fair share of what several causes block together
    (tokens), `ttft_seconds` what the loss adds to the predicted TTFT of a mean request, `confidence` (0 to 1) how sure its name is,
    and `tier` the proof that its fix carries.
    """

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
    points: float = 0.0
    share: float | None = None
    ttft_seconds: float | None = None
    confidence: float = 1.0
    tier: str | None = None
    fix_key: str = ""
    tried: Rerun | None = None
    """What the fix gave in a run of its own, where it is none of those that `rerun` proves together (capacity, routing…)."""
    warnings: tuple[str, ...] = ()
    """What a person has to look at before the fix is made."""

    @property
    def fix_name(self) -> str:
        """The same for all findings that one fix mends, without what `fix_key` may quote; empty where there is no fix."""
        return xxh64_hexdigest(self.fix_key.encode(errors="surrogatepass")) if self.fix_key else ""


def is_candidate(cause: Cause, group: GroupTotals) -> bool:
    """Whether a cause is worth a rerun: it costs something, and it is not simply what a user wrote or the model answered."""
    if cause.blocked < WORTH_TELLING * group.prompt_tokens:
        return False
    slot = cause.slot
    if slot.logged and slot.part.endswith("(assistant)") and not cause.structural:
        return False  # a recorded answer cannot be rewritten
    return slot.variable is not None or cause.kind.code != OTHER.code or not slot.part.endswith("(user)")


def is_declared_stable(cause: Cause) -> bool:
    """Whether the author said that this text does not vary."""
    return cause.origin is not None and cause.origin.stable is True


def place_of(cause: Cause, locate: Locate, path: str) -> tuple[str, int, int]:
    """File, line and column of a cause; `path`, 0 and 0 for text without a source."""
    if cause.origin is None:
        return path, 0, 0
    return cause.origin.path, *locate(cause.origin, cause.offset)


def severity_of(points: float) -> Severity:
    """By measured gain, never by pattern."""
    return "error" if points >= _ERROR_POINTS else "warning" if points >= _WARNING_POINTS else "info"


def fixed_finding(
    cause: Cause,
    rerun: Rerun,
    *,
    place: tuple[str, int, int],
    block_size: int,
    tokens_lost: int,
    fix: str,
    number: int = 0,
    together: int = 1,
) -> Finding | None:
    """The finding of a cause whose fix was tried in a rerun; None where that won nothing.

    It was fix `number` (from 0) of `together` in that rerun, in the order of what each adds.
    """
    gain = rerun.group_after - rerun.group_before
    declared = is_declared_stable(cause)
    if gain <= 0 and not declared:
        return None
    claim = "stands in a segment declared stable" if declared else _CLAIM
    if number:
        claim += " next, with the fix above" if number == 1 else " next, with the fixes above"
    together_text = f" ({together} fixes together)" if together > 1 else ""
    return replace(
        described(cause, claim, place=place, block_size=block_size),
        code=KV103.code if declared else cause.kind.code,
        severity="error" if declared else severity_of(gain),
        tokens_lost=tokens_lost,
        fix=fix + together_text,
        rerun=rerun,
    )


def no_gain_finding(
    cause: Cause, group: GroupTotals, *, place: tuple[str, int, int], block_size: int, fix: str
) -> Finding | None:
    """The finding of a cause that blocks much and that no fix removed; None where it blocks little."""
    if cause.blocked < _MUCH * group.prompt_tokens:
        return None
    return replace(described(cause, _CLAIM, place=place, block_size=block_size), fix=fix)


def described(cause: Cause, claim: str, *, place: tuple[str, int, int], block_size: int) -> Finding:
    """What and where a cause is, as information."""
    what = cause.kind.name if cause.kind is not OTHER else "text that varies"
    subject = f"variable `{cause.slot.variable}` ({what})" if cause.slot.variable else what
    to_blame = f"in the way of {cause.requests:,} requests" if cause.requests else f"changed in {cause.seen:,} requests"
    values = f"{cause.distinct:,} values, {to_blame}"
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
