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
    return "snippet" if any(_lines(found) for found in findings) else "none"


def _lines(found: Finding) -> list[Snippet]:
    """Every line of a prompt that a finding quotes."""
    pair = found.example
    lines = [found.snippet, *((pair.was_line, pair.now_line) if pair is not None else ())]
    return [line for line in lines if line is not None]


def _each(findings: list[Finding], limit: Callable[[Finding], Finding]) -> list[Finding]:
    return [limit(found) for found in findings]


def _without(found: Finding) -> Finding:
    return _with_lines(found, lambda _: None)


def _redacted(found: Finding) -> Finding:
    return _with_lines(found, _redacted_line)


def _with_lines(found: Finding, shown: Callable[[Snippet], Snippet | None]) -> Finding:
    """Return the finding without a patch, and with every line of a prompt as `shown` has it."""

    def line(one: Snippet | None) -> Snippet | None:
        return None if one is None else shown(one)

    pair = found.example
    if pair is not None:
        pair = pair.model_copy(update={"was_line": line(pair.was_line), "now_line": line(pair.now_line)})
    return found.model_copy(update={"snippet": line(found.snippet), "example": pair, "patch": None})


def _redacted_line(line: Snippet) -> Snippet:
    text, start, stop = redact_marked(line.text, line.start, line.stop)
    return Snippet(text=text, start=start, stop=stop)
