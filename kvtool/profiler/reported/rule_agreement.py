"""Groups whose provider reported other reads than its published rules predict: what a fix gains there is an estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvtool.accounting.misses.miss_book import MissBook
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import percent


class RuleDifference(NamedTuple):
    """Hit rates of the requests of which both are known."""

    reported: float
    predicted: float

    @property
    def is_large(self) -> bool:
        """Return whether what these rules promise cannot be taken as proven."""
        return abs(self.reported - self.predicted) > THRESHOLDS.rules_differ

    @property
    def told(self) -> str:
        """Return both rates in words."""
        return f"reported {percent(self.reported)}, predicted {percent(self.predicted)} by the published rules"


def rule_differences(result: RunResult) -> dict[str, RuleDifference]:
    """Return by group the rates where the rules prove no gain: the rates differ too much, or the reads of single requests do."""
    book, misses = money_of(result), result.find(MissBook)
    silent = () if misses is None else misses.differing_groups
    found: dict[str, RuleDifference] = {}
    for name, sides in {} if book is None else book.groups.items():
        side = sides[True]
        if side.reported.requests and side.predicted.requests:
            found[name] = RuleDifference(min(side.reported.rate, 1.0), min(side.predicted.rate, 1.0))
    return {name: each for name, each in found.items() if each.is_large or name in silent}


def with_estimates(findings: Sequence[Finding], differences: Mapping[str, RuleDifference]) -> list[Finding]:
    """Return the findings; a gain in a group whose rates differ is an estimate, and its fix begins with the difference."""
    told = []
    for finding in findings:
        difference = differences.get(finding.group)
        if difference is not None and finding.rerun is not None:
            fix = f"{difference.told}. Estimate by these rules: {finding.fix}"
            finding = finding.model_copy(update={"fix": fix, "estimate": True})
        told.append(finding)
    return told
