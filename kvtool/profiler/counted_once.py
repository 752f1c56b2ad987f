"""The invariant of findings: those of a group together never tell more lost tokens than the ledger has."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.results.finding import Finding
from kvtool.results.report import lost_tokens


def check_counted_once(findings: Iterable[Finding], groups: Iterable[GroupTotals]) -> None:
    """AssertionError where the findings of a group count a token twice, or one that hit: each token counts for one of them."""
    told: dict[str, int] = {}
    for finding in findings:
        told[finding.group] = told.get(finding.group, 0) + finding.tokens_lost
    for group in groups:
        lost, of_findings = lost_tokens(group), told.get(group.name, 0)
        assert of_findings <= lost, (
            f"{group.name}: findings tell of {of_findings} lost tokens, and the ledger of {lost}"
        )
