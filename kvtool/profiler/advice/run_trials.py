"""Fixes of the run and of the chat template, each tried alone by running the workload again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvtool.accounting.ledger.totals import GroupTotals, TokenTotals
from kvtool.fixes.chat.chat_probe import Checked
from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.trials import Again, TrialInterruptedError
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.finding import Finding, Rerun
from kvtool.text.terminal.numbers import percent

_OF_MODELS = "KV32"
"""Codes of what the KV cache groups of a model lose."""


class RunTrials:
    """Runs with one fix each, which all findings share."""

    def __init__(self, result: RunResult, again: Again) -> None:
        self._before = _by_name(result)
        self._again = again
        self._after: dict[str, dict[str, GroupTotals]] = {}

    def proven(self, findings: Iterable[Finding], fixes: Sequence[Fix]) -> list[Finding]:
        """Findings with the fix of their code that wins most for their group, and what it won. Raises TrialInterruptedError."""
        return [self._with_best(finding, [fix for fix in fixes if fix.code == finding.code]) for finding in findings]

    def checked(self, checks: Iterable[Checked]) -> list[Finding]:
        """The findings of a chat template, those with a fix that can be tried with what it won. Raises TrialInterruptedError.

        Their tokens are those of one conversation, which their messages say; the causes of this run have what it lost by them.
        """
        found = [
            check.finding if check.fix is None else self._with_best(check.finding, [check.fix], best_only=False)
            for check in checks
        ]
        return [finding.model_copy(update={"tokens_lost": 0}) for finding in found]

    def _with_best(self, finding: Finding, fixes: Sequence[Fix], *, best_only: bool = True) -> Finding:
        before = self._before.get(finding.group)
        fixes = [fix for fix in fixes if fix.can_be_tried]
        if before is None or not fixes:
            return finding
        rates = [self._rate(fix, finding.group) for fix in fixes]
        best = max(range(len(fixes)), key=lambda at: (rates[at], -at))
        fix, rate = fixes[best], rates[best]
        if rate <= before.hit_rate:
            told = finding.fix if best_only else fix.what
            nothing = "measured by running again: it wins nothing in this run"
            if finding.code.startswith(_OF_MODELS):  # what they say to do is about prompts, what was tried are settings
                flags = ", ".join(fix.what.rpartition(": ")[2] for fix in fixes)
                nothing = f"{flags}: {nothing.replace('it wins', 'that wins')}"
            return finding.model_copy(update={"fix": f"{told} ({nothing})"})
        won = f"{percent(before.hit_rate)} -> {percent(rate)}"
        told = f"{fix.what}: {finding.group} {won} (measured by running again)"
        tried = Rerun(
            group_before=before.hit_rate,
            group_after=rate,
            total_before=_total(self._before),
            total_after=_total(self._after[fix.key]),
            group_alone=rate,
            group_predicted=None,
        )
        return finding.model_copy(update={"fix": told, **carried(fix), "tried": tried})

    def _rate(self, fix: Fix, group: str) -> float:
        """The group's hit rate with this fix."""
        if fix.key not in self._after:
            result = self._again([fix], False)
            if result.partial:
                raise TrialInterruptedError
            self._after[fix.key] = _by_name(result)
        after = self._after[fix.key].get(group)
        return 0.0 if after is None else after.hit_rate


def carried(fix: Fix) -> dict[str, object]:
    """What a finding says of the fix that mends it."""
    return {"tier": fix.tier, "fix_key": fix.name, "warnings": list(fix.warnings)}


def _total(groups: dict[str, GroupTotals]) -> float:
    return TokenTotals.of(groups.values()).hit_rate


def _by_name(result: RunResult) -> dict[str, GroupTotals]:
    return {group.name: group for group in result.ledger.totals()}
