"""Which steps of advice the next command makes: their gain is what it reaches, and the others are told as tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.fixes.fix import fix_name
from kvtool.fixes.marked_head import MISSING_MARK
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix
from kvtool.profiler.advice.trials import carried, totals_by_name
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.finding import Finding, Rerun
from kvtool.text.terminal.numbers import percent

if TYPE_CHECKING:
    from kvtool.profiler.optimize.edited_files import Optimized

GOES_ALONG = "another fix of this group moves this text too"
MENDED_TOO = "another fix of this group removes this cause too"
_LATER = "once the other fixes are made"


@dataclass(frozen=True, slots=True)
class MadeSteps:
    """Keys of the fixes that are made together, and the run that proves them; without keys, all steps count as made.

    `reasons` say why others are not edited, and `later` may be made after these; both by the names of fixes.
    """

    keys: frozenset[str] = frozenset()
    proof: RunResult | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    later: frozenset[str] = frozenset()

    @classmethod
    def by_edits(cls, edits: Optimized) -> MadeSteps:
        """Return those that edits of files make."""
        reasons = {fix_name(key): why for key, why in edits.refused.items()}
        keys = frozenset(each.step.fix.key for each in edits.edited)
        return cls(keys, edits.after, reasons, frozenset(map(fix_name, edits.later)))

    @classmethod
    def of(cls, followed: Advice, advice: Advice) -> MadeSteps:
        """Return those of the advice that is followed; the others of all advice may be made later."""
        keys = frozenset(fix.key for fix in followed.fixes)
        later = frozenset(fix.name for fix in advice.fixes if fix.key not in keys)
        return cls(keys, followed.proof, later=later) if later else ALL_MADE

    def told(self, finding: Finding | None) -> Finding | None:
        """Return a finding whose fix is not among them, told as one that was tried beside them."""
        if finding is None or finding.rerun is None:
            return finding
        won = f"{finding.group} {percent(finding.rerun.group_before)} -> {percent(finding.rerun.group_after)}"
        if finding.fix in (GOES_ALONG, MENDED_TOO):
            fix = f"{finding.fix}; make that one by hand"
        elif finding.fix_key in self.later:
            fix = f"{_LATER}: {finding.fix}; {won}"
        else:
            why = self.reasons.get(finding.fix_key or "", "")
            fix = f"by hand: {finding.fix}; {won}" + (f"; not edited: {why}" if why else "")
        return finding.model_copy(update={"fix": fix, "rerun": None, "tried": finding.rerun})


ALL_MADE = MadeSteps()
"""Where no step is left for later."""


def made_marks(edits: Optimized) -> dict[str, KeptFix]:
    """Return by group the steps that set a breakpoint in a file."""
    return {each.step.cause.group: each.step for each in edits.edited if each.step.cause.slot.kind == MISSING_MARK.key}


def with_made_marks(findings: Iterable[Finding], edits: Optimized) -> list[Finding]:
    """Return the findings; those of a missing breakpoint that edits of files set, with what all these edits reach."""
    marks = made_marks(edits)
    before, after = totals_by_name(edits.before), totals_by_name(edits.after)
    found: list[Finding] = []
    for one in findings:
        step = marks.get(one.group) if one.code == KV203.code and one.tried is not None else None
        if step is not None:
            rerun = Rerun(
                group_before=before[one.group].hit_rate,
                group_after=after[one.group].hit_rate,
                total_before=edits.rates[0],
                total_after=edits.rates[1],
                group_alone=step.alone,
                group_predicted=None,
            )
            told = {"fix": step.fix.what, "rerun": rerun, "tried": None, **carried(step.fix)}
            one = one.model_copy(update=told)
        found.append(one)
    return found
