"""What a lint run found: one document that the report and the JSON are views of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtool.lint.sources import InputKind
from kvtool.results.choices import Severity
from kvtool.results.report import Finding

if TYPE_CHECKING:
    from kvtool.lint.probe import ProbeResult


@dataclass(frozen=True, slots=True)
class LintedInput:
    """An input, what it was taken for, and what there is to say of it where there was nothing to look at."""

    path: str
    kind: InputKind
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What `--fix` did: how many findings it mended in which files, the patch that undoes it, and the command for that."""

    findings: int
    paths: tuple[str, ...]
    undo: str | None = None
    undo_with: str | None = None


@dataclass(slots=True)
class LintResult:
    """`fixable` are the fix keys of findings that an edit of the files can mend; `fixed` and `probe` None where nobody asked."""

    inputs: list[LintedInput] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ignored: int = 0
    partial: bool = False
    fixable: frozenset[str] = frozenset()
    fixed: Fixed | None = None
    probe: ProbeResult | None = None

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def can_fix(self, finding: Finding) -> bool:
        return bool(finding.fix_key) and finding.fix_key in self.fixable
