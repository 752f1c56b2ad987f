"""Findings: what costs hits, where it stands, and what fixing it gave when it was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.entry import CodeEntry
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv115 import KV115
from kvtool.diagnose.codes.structure.kv142 import KV142
from kvtool.diagnose.codes.structure.kv143 import KV143
from kvtool.diagnose.codes.structure.kv144 import KV144
from kvtool.diagnose.codes.values.kv103 import KV103
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.severity import severity_in_run
from kvtool.diagnose.slots import content_part
from kvtool.diagnose.visible_characters import NOTHING
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, LoggedPlace, Rerun, Snippet
from kvtool.text.templates.built_in import BUILT_IN_TEMPLATES
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import plural
from kvtool.text.traced import Origin
from kvtool.workload.turn import RequestName

Locate = Callable[[Origin, int], tuple[int, int]]
"""Line and column in the file of a character of an origin's text."""

_IN_SESSIONS = (KV115.code, KV142.code, KV143.code, KV144.code)
_LONGEST = 40
_MOST_POINTS = 4
"""Code points of one text that are listed."""
CLAIM = "stops reuse of the text after it"


def is_candidate(cause: SlotCause, group: GroupTotals, of: int) -> bool:
    """Return whether a cause is worth a rerun: it costs something of so many tokens, and it is not simply what a user wrote or the
    model answered.

    Where what requests share after a user's text is worth a finding, an application wrote what is around it.
    """
    if cause.blocked < THRESHOLDS.warning_share * of or is_paid_once(cause):
        return False
    slot = cause.slot
    if slot.logged and slot.part.endswith("(assistant)") and not cause.structural:
        return False  # a recorded answer cannot be rewritten
    return (
        is_worth_finding(cause.blocked, group)
        or slot.variable is not None
        or cause.kind.code != OTHER.code
        or not slot.part.endswith("(user)")
    )


def is_worth_finding(tokens: int, group: GroupTotals) -> bool:
    """Return whether a loss of so many tokens of a group is too large to be passed over."""
    return tokens > THRESHOLDS.error_share * group.prompt_tokens


def needs_finding(cause: SlotCause, group: GroupTotals) -> bool:
    """Return whether a cause without a fix gets a finding: a large one, or a change within sessions that is worth a warning."""
    in_sessions = cause.structural and cause.kind.code in _IN_SESSIONS
    worth = in_sessions and cause.blocked >= THRESHOLDS.warning_share * group.prompt_tokens
    return worth or is_worth_finding(cause.blocked, group)


def is_declared_stable(cause: SlotCause) -> bool:
    """Return whether the author said that this text does not vary."""
    return cause.origin is not None and cause.origin.stable is True


def place_of(cause: SlotCause, locate: Locate, path: str) -> tuple[str, int, int]:
    """Return file, line and column of a cause; the record for what it holds outside of its texts, else `path`, 0 and 0.

    A record's tool calls are text of a built-in chat template, which is no place of the user's.
    """
    if cause.origin is None or (cause.written is not None and cause.origin.path.startswith(BUILT_IN_TEMPLATES)):
        where, line, column = cause.written if cause.record is not None and cause.written is not None else (path, 0, 0)
        return where, line or 0, column or 0
    return cause.origin.path, *locate(cause.origin, cause.offset)


def fixed_finding(
    cause: SlotCause,
    rerun: Rerun,
    *,
    place: tuple[str, int, int],
    block_size: int,
    severity: Severity,
    tokens_lost: int,
    fix: str,
    together: int = 1,
    subject: str = "",
    more_requests: int = 0,
) -> Finding | None:
    """Return the finding of a cause whose fix was tried in a rerun; None where that won nothing. A declared one is always an error.

    It was one of `together` fixes in that rerun. `subject` replaces the cause's name.
    """
    gain = rerun.group_after - rerun.group_before
    declared = is_declared_stable(cause)
    if gain <= 0 and not declared:
        return None
    claim = "changes in a segment declared stable" if declared else CLAIM
    together_text = "" if together <= 1 else " (both fixes)" if together == 2 else f" (all {together} fixes)"
    return described(
        cause, claim, place=place, block_size=block_size, subject=subject, more_requests=more_requests
    ).model_copy(
        update={
            "code": KV103.code if declared else cause.kind.code,
            "severity": "error" if declared else severity,
            "tokens_lost": tokens_lost,
            "fix": fix + together_text,
            "rerun": rerun,
        }
    )


def differs_from_groups(cause: SlotCause) -> bool:
    """Return whether a group has one text where other groups have others: it pays for that once, with its first request."""
    return cause.kind is OTHER and cause.is_of_groups


def is_paid_once(cause: SlotCause) -> bool:
    """Return whether only the first request of a group pays for what differs from other groups: no edit is worth it."""
    return differs_from_groups(cause) and cause.requests <= 1


def cause_name(cause: SlotCause) -> str:
    """Return what differs, in words."""
    return "text that differs from other groups" if differs_from_groups(cause) else cause.kind.name


def no_gain_finding(
    cause: SlotCause,
    group: GroupTotals,
    *,
    place: tuple[str, int, int],
    block_size: int,
    severity: Severity,
    fix: str,
    tried: bool = False,
) -> Finding | None:
    """Return the finding of a cause that blocks much and that no fix removed; None where it blocks little."""
    if not needs_finding(cause, group):
        return None
    return described(cause, CLAIM, place=place, block_size=block_size).model_copy(
        update={"severity": severity, "fix": fix, "no_gain": tried}
    )


def described(
    cause: SlotCause,
    claim: str,
    *,
    place: tuple[str, int, int],
    block_size: int,
    subject: str = "",
    more_requests: int = 0,
) -> Finding:
    """Return what and where a cause is, as information. `more_requests` are blocked where its whole line comes or goes: what values
    that has in them is not known.
    """
    what = cause_name(cause) if cause.kind is not OTHER or differs_from_groups(cause) else "changing text"
    if cause.slot.variable:  # the name comes into brackets
        what = what.replace(" (", ", ").replace(")", "")
    if cause.visible_text is not None:
        what = f"{what} ({' / '.join(map(_quoted, cause.visible_text))})"
    subject = subject or (f"variable `{cause.slot.variable}` ({what})" if cause.slot.variable else what)
    done = "blocks" if cause.requests else "changes in"
    values = f"has {plural(cause.distinct, 'value')} and " if not (differs_from_groups(cause) or more_requests) else ""
    figures = f"It {values}{done} {plural((cause.requests or cause.seen) + more_requests, 'request')}"
    block = f", block {cause.first_token // block_size:,}" if block_size > 1 else ""
    path, line, column = place
    return Finding.of(
        code=cause.kind.code,
        severity="info",
        group=cause.group,
        path=path,
        line=line,
        column=column,
        message=f"{subject} {claim}. {figures}, first at token {cause.first_token:,}{block}",
        tokens_lost=cause.blocked,
        fix="",
        snippet=Snippet.of(cause.excerpt, cause.value_start, cause.value_stop),
        in_source=cause.in_source and line > 0,
        logged=logged_cause(cause),
        width=cause.origin.width
        if cause.slot.variable and cause.origin is not None
        else cause.value_stop - cause.value_start,
    )


def _quoted(visible_text: str) -> str:
    """Return what is there; of many code points the first few, each whole, and how many more there are."""
    if visible_text == NOTHING:
        return visible_text
    points = visible_text.split(" ")
    if len(points) > _MOST_POINTS and all(point.startswith("U+") for point in points):
        return f"`{' '.join(points[:_MOST_POINTS])}` and {len(points) - _MOST_POINTS} more"
    return f"`{sanitize(visible_text[:_LONGEST])}`"


def logged_cause(cause: SlotCause) -> LoggedPlace | None:
    """Return where in a record a cause is, record 0 being a file of its own; None for what is of no record, or comes from a
    template.
    """
    origin, record = cause.origin, cause.record
    if origin is not None and origin.one_of_many and origin.variable is None:
        return logged_place(RequestName(origin.path), origin, cause.offset, cause.slot.part)
    if record is None or not record.record or (origin is not None and origin.path != record.path):
        return None
    return logged_place(record, origin, cause.offset, cause.slot.part)


def in_their_files(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings as they are shown: a file that is a record of its own is told by file and line, as any other file is."""
    return [
        finding.model_copy(update={"logged": None})
        if finding.logged is not None and not finding.logged.record
        else finding
        for finding in findings
    ]


def logged_place(record: RequestName, origin: Origin | None, offset: int, part: str) -> LoggedPlace:
    """Return the place of character `offset` of the text that was written at `origin`; of what has none, `part` alone."""
    if origin is None or not (origin.pointer or origin.one_of_many):
        return LoggedPlace(record=record.record, part=part, content=None, line=0)
    line = origin.lines.number(offset)
    return LoggedPlace(record=record.record, part=origin.part or part, content=content_part(origin), line=line)


def fate_finding(
    entry: CodeEntry,
    tokens: int,
    group: GroupTotals,
    told: tuple[str, str],
    *,
    path: str,
    severity: Severity | None = None,
) -> Finding | None:
    """Return the finding of a fate; `told` are message and fix. None where the group lost too few tokens to be worth a word.
    `severity` None: as they cost.
    """
    points = tokens / group.prompt_tokens if group.prompt_tokens else 0.0
    if points < THRESHOLDS.warning_share:
        return None
    message, fix = told
    if severity is None:
        severity = severity_in_run(tokens, group.requests, group.prompt_tokens)
    return Finding.of(
        entry.code, severity, group.name, path, 0, 0, message, tokens, fix, points=points, tier=entry.tier
    )
