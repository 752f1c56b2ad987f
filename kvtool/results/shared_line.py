"""One line of a prompt that several groups send: its findings are told together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvtool.results.finding import Finding


def by_line(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return findings in their order, those of one line and fix in several groups together: at most one of each group."""
    found: dict[tuple[object, ...], list[Finding]] = {}
    times = Counter[tuple[object, ...]]()
    for finding in findings:
        key = _line_and_fix(finding)
        of_group = (*key, finding.group)
        found.setdefault((*key, times[of_group]), []).append(finding)
        times[of_group] += 1
    return list(found.values())


def claim_of(finding: Finding) -> str:
    """Return the first sentence of a finding; the figures of its group come after it."""
    return finding.message.partition(". ")[0]


def _line_and_fix(finding: Finding) -> tuple[object, ...]:
    """Records of a log differ by group, so there the place inside the record decides, and the text of the line."""
    logged = finding.logged
    if not finding.group or not finding.line or (logged is not None and not logged.template):
        return finding.identity
    place = (finding.line, finding.column) if logged is None else (logged.told, logged.template)
    return finding.code, finding.severity, finding.path, place, claim_of(finding), finding.fix
