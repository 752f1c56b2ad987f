"""A saved result with no more of prompts in it than may be shown."""

from __future__ import annotations

from collections.abc import Callable

from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding, Snippet
from kvtool.results.show_text import ShowText
from kvtool.text.redact import redact_marked


def limit_text(result: CheckResult, show: ShowText | None) -> CheckResult:
    """`none` leaves no line in it, `snippet` no patch and lines with keys and addresses blacked out; None leaves it as it is."""
    if show is None or show == "full":
        return result
    limit = _without if show == "none" else _redacted
    reports = [report.model_copy(update={"findings": _each(report.findings, limit)}) for report in result.reports]
    return result.model_copy(update={"findings": _each(result.findings, limit), "reports": reports})


def text_in(result: CheckResult) -> ShowText:
    """How much of prompts a result has in it."""
    findings = [*result.findings, *(found for report in result.reports for found in report.findings)]
    if any(found.patch is not None for found in findings):
        return "full"
    return "snippet" if any(found.snippet is not None for found in findings) else "none"


def _each(findings: list[Finding], limit: Callable[[Finding], Finding]) -> list[Finding]:
    return [limit(found) for found in findings]


def _without(found: Finding) -> Finding:
    return found.model_copy(update={"snippet": None, "patch": None})


def _redacted(found: Finding) -> Finding:
    snippet = found.snippet
    if snippet is not None:
        text, start, stop = redact_marked(snippet.text, snippet.start, snippet.stop)
        snippet = Snippet(text=text, start=start, stop=stop)
    return found.model_copy(update={"snippet": snippet, "patch": None})
