"""A finding that the fates of a group's tokens tell: no line is to blame for it."""

from __future__ import annotations

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes.entry import CodeEntry
from kvtool.diagnose.findings import WORTH_TELLING
from kvtool.diagnose.severity import severity_in_run
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding


def fate_finding(
    entry: CodeEntry,
    tokens: int,
    group: GroupTotals,
    told: tuple[str, str],
    *,
    path: str,
    severity: Severity | None = None,
) -> Finding | None:
    """`told` are message and fix; None where the group lost too few tokens to be worth a word. `severity` None: as they cost."""
    points = tokens / group.prompt_tokens if group.prompt_tokens else 0.0
    if points < WORTH_TELLING:
        return None
    message, fix = told
    if severity is None:
        severity = severity_in_run(tokens, group.requests, group.prompt_tokens)
    return Finding.of(
        entry.code, severity, group.name, path, 0, 0, message, tokens, fix, points=points, tier=entry.tier
    )
