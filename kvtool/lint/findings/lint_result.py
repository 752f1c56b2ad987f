"""The result of a lint run, and its document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtool.errors import KvtoolError
from kvtool.lint.folders.folder_files import OTHER_LANGUAGE, OUTSIDE
from kvtool.lint.lint_inputs import TextInput
from kvtool.results.choices import Severity
from kvtool.results.documents.lint import Counts, Fixed, InputProblem, LintDocument, LintFinding, LintInput
from kvtool.results.finding import Finding

if TYPE_CHECKING:
    from kvtool.lint.probe.probing import ProbeResult


@dataclass(slots=True)
class LintResult:
    """`fixable` are the fix keys of findings that an edit of the files can mend; `fixed` and `probe` None where nobody asked."""

    inputs: list[LintInput] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ignored: int = 0
    partial: bool = False
    problems: list[KvtoolError] = field(default_factory=list)
    """What is wrong with inputs that could not be read or run; the findings are those of the others."""
    fixable: frozenset[str] = frozenset()
    templates: list[TextInput] = field(default_factory=list)
    """The templates that were read, with what code passes to them."""
    fixed: Fixed | None = None
    probe: ProbeResult | None = None
    made: set[str] = field(default_factory=set)
    """Values of which a finding where they are sent says all, each as a key of `loss_key`."""
    passed_over: int = 0
    """YAML and JSON files that hold nothing that lint reads."""
    outside: list[str] = field(default_factory=list)
    """Links in folders that lead out of their repositories, and so were not read."""
    withheld: list[str] = field(default_factory=list)
    """Of each log of which no fix is advised, why."""
    unread: list[str] = field(default_factory=list)
    """Files of code that speak of models, in languages that are not read."""

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def can_fix(self, finding: Finding) -> bool:
        return bool(finding.fix_key) and finding.fix_key in self.fixable

    def document(self) -> LintDocument:
        """The result without any prompt text."""
        return LintDocument(
            schema="kvtool.lint/1",
            partial=self.partial,
            problems=[_problem(error) for error in self.problems],
            inputs=[
                *self.inputs,
                *(LintInput(path=path, kind="text", note=OUTSIDE) for path in self.outside),
                *(LintInput(path=path, kind="text", note=OTHER_LANGUAGE) for path in self.unread),
            ],
            findings=[self._told(finding) for finding in self.findings],
            counts=Counts(error=self.count("error"), warning=self.count("warning"), info=self.count("info")),
            ignored=self.ignored,
            fixed=self.fixed,
            probe=None if self.probe is None else self.probe.document(),
        )

    def _told(self, finding: Finding) -> LintFinding:
        """A finding without a group was seen in a file, not measured."""
        return LintFinding(
            **finding.model_dump(
                include=set(LintFinding.model_fields),
                exclude={"group": True, "example": {"was_line", "now_line"}},
            ),
            evidence="measured" if finding.group else "static",
            group=finding.group or None,
            fixable=self.can_fix(finding),
        )


_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, errors first, then warnings, and each by its place."""

    def key(one: Finding) -> tuple[object, ...]:
        rank = _SEVERITIES.index(one.severity)
        return rank, one.path, one.line, one.column, one.code, one.group, -one.tokens_lost

    return sorted(findings, key=key)


def _problem(error: KvtoolError) -> InputProblem:
    place = error.place
    return InputProblem(
        path="" if place is None else place.path,
        line=0 if place is None else place.line or 0,
        column=0 if place is None else place.column or 0,
        message=error.message,
        hint=error.hint,
    )
