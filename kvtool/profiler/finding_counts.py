"""Check that the findings of a group together never report more lost tokens than the ledger has."""

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
    """Raise AssertionError if the findings of a group count a token twice, or a token that hit.

    The check also runs under `python -O`.
    """
    told: dict[str, int] = {}
    for finding in findings:
        told[finding.group] = told.get(finding.group, 0) + finding.tokens_lost
    for group in groups:
        lost, of_findings = lost_tokens(group), told.get(group.name, 0)
        if of_findings > lost:
            raise AssertionError(
                f"{group.name}: the findings have {of_findings} lost tokens, and the ledger has {lost}"
            )


def with_causes(advice: Sequence[Finding], findings: Sequence[Finding], groups: Iterable[GroupTotals]) -> list[Finding]:
    """Return the causes and the run's findings, without findings that add nothing to a cause of the same group.

    Text at another place (KV202) adds nothing where a cause has such tokens itself, or leaves too few of them, or where a history
    was cut: the text after the cut is elsewhere then. A finding whose fix was tried without a count of its own, as for a chat
    template, gets the tokens that the fix won, unless another finding has them.
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

    def adds_to_cause(finding: Finding) -> bool:
        of_group = codes.get(finding.group, set())
        if finding.code == KV202.code:
            taken = any("displaced" in wins(code) or code in _CUT for code in of_group)
            return not taken and finding.tokens_lost <= left[finding.group]
        return finding.code != KV203.code or not of_group

    return [*advice, *filter(adds_to_cause, found)]
