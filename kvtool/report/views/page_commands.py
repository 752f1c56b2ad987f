"""Commands that a page proposes, as one can copy them."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from kvtool.config.command_line import flags
from kvtool.report.views.section import Missing
from kvtool.results.report import Report
from kvtool.text.terminal.console import sanitize


def shown_command(words: Sequence[str]) -> str:
    """Quote `kvtool` and its arguments for a shell."""
    return " ".join(quote(sanitize(word)) for word in ("kvtool", *words))


def profile_command(report: Report, **options: object) -> str:
    """Return the command that profiles this workload into a page like this one."""
    return shown_command(["profile", *report.inputs, *flags(**options), "-o", "report.html"])


def missing_views(report: Report) -> Missing | None:
    """Say that the result was saved without what charts draw; None where it has that."""
    if report.views is not None:
        return None
    return Missing("This result has no data for charts.", "Profile again to record it:", profile_command(report))
