"""The invariant of findings: those of a group together never tell more lost tokens than the ledger has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes import wins
from kvtool.diagnose.codes.layout.kv202 import KV202
from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.diagnose.codes.structure.kv141 import KV141
from kvtool.diagnose.codes.structure.kv143 import KV143
from kvtool.results.finding import Finding
from kvtool.results.report import lost_tokens

_CUT = (KV141.code, KV143.code)


def check_counted_once(findings: Iterable[Finding], groups: Iterable[GroupTotals]) -> None:
    """AssertionError where the findings of a group count a token twice, or one that hit: each token counts for one of them.

    It is raised under `python -O`, too.
    """
    told: dict[str, int] = {}
    for finding in findings:
        told[finding.group] = told.get(finding.group, 0) + finding.tokens_lost
    for group in groups:
        lost, of_findings = lost_tokens(group), told.get(group.name, 0)
        if of_findings > lost:
            raise AssertionError(f"{group.name}: findings tell of {of_findings} lost tokens, and the ledger of {lost}")


def with_causes(advice: Sequence[Finding], findings: Sequence[Finding], groups: Iterable[GroupTotals]) -> list[Finding]:
    """The causes and what the run explains, without what says no more where a cause of the same group is told.

    Text at another place (KV202) is of that where a cause has such tokens itself, or leaves too few of them, or where a history
    was cut: what stands behind the cut is elsewhere then. What a fix was tried
    for without a count of its own, as of a chat template, has the tokens that the fix won, as far as no other finding has them.
    """
    groups = list(groups)
    codes: dict[str, set[str]] = {}
    told: dict[str, int] = {}
    for finding in advice:
        codes.setdefault(finding.group, set()).add(finding.code)
    for finding in [*advice, *(one for one in findings if one.code != KV202.code)]:
        told[finding.group] = told.get(finding.group, 0) + finding.tokens_lost
    left = {group.name: lost_tokens(group) - told.get(group.name, 0) for group in groups}
    tokens = {group.name: group.prompt_tokens for group in groups}
    found: list[Finding] = []
    for finding in findings:
        tried = finding.tried
        if tried is not None and not finding.tokens_lost and finding.group in left:
            won = min(round((tried.group_after - tried.group_before) * tokens[finding.group]), left[finding.group])
            left[finding.group] -= won
            finding = finding.model_copy(update={"tokens_lost": won, "points": won / max(tokens[finding.group], 1)})
            codes.setdefault(finding.group, set()).add(finding.code)
        found.append(finding)

    def says_more(finding: Finding) -> bool:
        of_group = codes.get(finding.group, set())
        if finding.code == KV202.code:
            taken = any("displaced" in wins(code) or code in _CUT for code in of_group)
            return not taken and finding.tokens_lost <= left[finding.group]
        return finding.code != KV203.code or not of_group

    return [*advice, *filter(says_more, found)]
