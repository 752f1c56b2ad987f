"""What a section says that has nothing to show."""

from __future__ import annotations

from shlex import quote

from kvtool.report.html.page_parts import Missing
from kvtool.results.report import Report
from kvtool.text.terminal.console import sanitize


def not_recorded(report: Report, what: str) -> Missing:
    """A view that the result was saved without."""
    return Missing(f"This result does not hold {what}. A new profile records it:", profile_command(report))


def profile_command(report: Report, *more: str) -> str:
    """The command that profiles this workload into a page like this one."""
    words = ["kvtool", "profile", report.workload, *more, "-o", "report.html"]
    return " ".join(quote(sanitize(word)) for word in words)
