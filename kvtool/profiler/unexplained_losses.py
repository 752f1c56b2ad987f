"""Check that every large loss has a finding, and make a finding for the rest if causes are many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes import wins
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.findings import is_paid_once, is_worth_finding
from kvtool.diagnose.severity import severity_in_run
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import plural

_DIFFERENT = ("blocked", "cosmetic", "seam")
"""Fates of tokens after a difference."""
PAID_ONCE = "nothing to fix: the first request of the group starts with other text than other groups"
_MOST_LOOKED_AT = 64
"""Causes of a group that are described before the costliest with a place is chosen, a bound on time."""
Describe = Callable[[SlotCause, GroupTotals], Finding]
"""A cause as a finding, with its place and the two requests that show it."""


def tokens_after_differences(group: GroupTotals, findings: Iterable[Finding]) -> int:
    """Return a group's tokens lost to differences, less those of findings."""
    told = sum(
        finding.tokens_lost
        for finding in findings
        if finding.group == group.name and not set(_DIFFERENT).isdisjoint(wins(finding.code))
    )
    return sum(group.fates[fate] for fate in _DIFFERENT) - told


def add_rest_findings(
    findings: Sequence[Finding], groups: Iterable[GroupTotals], causes: CauseBook, describe: Describe, *, path: str
) -> list[Finding]:
    """Return the findings, and one more for each group whose other differences lose much together: it shows the costliest of them.

    `path` replaces the source of requests without text, whose differences have no place.
    """
    found = list(findings)
    for group in groups:
        rest = tokens_after_differences(group, findings)
        if not is_worth_finding(rest, group):
            continue
        told = {_place(finding) for finding in findings if finding.group == group.name}
        blocking = [cause for cause in causes.of_group(group.name) if cause.blocked]
        others = [cause for cause in blocking if not is_paid_once(cause)]
        described = (describe(cause, group) for cause in blocking[:_MOST_LOOKED_AT] if is_paid_once(cause))
        once = [each for each in described if _place(each) not in told]
        if once and not is_worth_finding(rest - sum(each.tokens_lost for each in once), group):
            update = {"tokens_lost": rest, "points": rest / group.prompt_tokens, "fix": PAID_ONCE}
            found.append(once[0].model_copy(update=update))
            continue
        described = (describe(cause, group) for cause in others[:_MOST_LOOKED_AT])
        first = next((each for each in described if _place(each) not in told), None)
        found.append(_rest_finding(first, len(others), rest, group, path))
    return found


def check_losses_explained(findings: Iterable[Finding], groups: Iterable[GroupTotals]) -> None:
    """Raise AssertionError if differences lose more of a group's tokens than may go without a finding; under `python -O`, too."""
    findings = list(findings)
    for group in groups:
        rest = tokens_after_differences(group, findings)
        if is_worth_finding(rest, group):
            raise AssertionError(f"{group.name}: {rest} tokens are lost after differences without a finding")


def _place(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.path, finding.line, finding.logged


def _rest_finding(first: Finding | None, count: int, tokens: int, group: GroupTotals, path: str) -> Finding:
    """Make a finding of all losses without one; `first` is the costliest known."""
    points = tokens / group.prompt_tokens
    from kvtool.profiler.advice.left_to_do import SEND_THE_SAME

    severity = severity_in_run(tokens, group.requests, group.prompt_tokens)
    if first is None:
        message = "changing text comes before shared text; the requests have no text, so its place is unknown"
        fix = "log the text of the requests: kvtool then finds the line"
        if count:
            message, fix = f"small differences at {count:,} places stop reuse of the text after them", SEND_THE_SAME
        return Finding.of(KV201.code, severity, group.name, path, 0, 0, message, tokens, fix, points=points)
    several = f"{plural(count, 'small difference')}; the largest: " if count > 1 else ""
    told: dict[str, object] = {
        "code": KV201.code,
        "severity": severity,
        "message": several + first.message,
        "tokens_lost": tokens,
        "points": points,
        "fix": SEND_THE_SAME,
    }
    return first.model_copy(update=told)
