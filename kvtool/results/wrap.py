"""Results that are one thing only, as the check that every format renders: one report, or findings alone."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.results.check import CheckResult
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, as_severe
from kvtool.results.report import Report
from kvtool.results.verdict import EXIT_FAILED, EXIT_INTERRUPTED, Outcome, Verdict
from kvtool.results.verdict_of import PARTIAL, verdict_on
from kvtool.text.terminal.numbers import plural
from kvtool.version import __version__


def check_of(report: Report) -> CheckResult:
    """Return a profile as a check: its gates decide the verdict."""
    return CheckResult(
        version=str(report.config.get("version") or __version__),
        command="profile",
        verdict=verdict_on(report),
        reports=[report],
        findings=report.findings,
        ignored=0,
    )


def lint_check(
    findings: Sequence[Finding],
    *,
    inputs: Sequence[str] = (),
    ignored: int = 0,
    partial: bool = False,
    error_on: Severity = "error",
) -> CheckResult:
    """Return a lint run as a check: it fails where a finding is as severe as `error_on`."""
    return CheckResult(
        version=__version__,
        command="lint",
        verdict=_lint_verdict(findings, partial, error_on),
        inputs=list(inputs),
        reports=[],
        findings=list(findings),
        ignored=ignored,
    )


def _lint_verdict(findings: Sequence[Finding], partial: bool, error_on: Severity) -> Verdict:
    errors, warnings, infos = (
        sum(found.severity == severity for found in findings) for severity in ("error", "warning", "info")
    )
    told = [plural(errors, "error"), plural(warnings, "warning"), f"{infos:,} info"]
    counts = ", ".join(text for text in told if not text.startswith("0 ")) or "no findings"
    failed = any(as_severe(found.severity, error_on) for found in findings)
    outcome: Outcome = "partial" if partial else "fail" if failed else "pass"
    sentence = PARTIAL if partial else f"{'FAIL' if failed else 'PASS'} {counts}"
    code = EXIT_INTERRUPTED if partial else EXIT_FAILED if failed else 0
    return Verdict(outcome=outcome, exit_code=code, sentence=sentence, checks=[], notices=[])
