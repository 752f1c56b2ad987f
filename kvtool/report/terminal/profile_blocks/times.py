"""The lines of a profile about its time to the first token: predicted, and below it measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.terminal.profile_blocks.answer_lines import LABEL
from kvtool.report.views.times import measured_on, medians, not_measured, predicted_for, shortfalls
from kvtool.results.report import Report
from kvtool.results.run_times import OnOff
from kvtool.text.terminal.console import put_field, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console


def print_predicted(console: Console, report: Report, plain: bool) -> None:
    """Print the predicted time to the first token, which must be known, with its model and machine."""
    _put_times(console, report.ttft.predicted, f"predicted for {predicted_for(report)}", plain)


def print_measured(console: Console, report: Report, plain: bool) -> None:
    """Print the measured one with its model and machine, or why there is none; nothing where none was asked for."""
    measured = report.ttft.measured
    if measured is None:
        return
    if not measured.requests:
        text = sanitize(f"not measured: {not_measured(measured)}", ascii_only=plain)
        put_field(console, "TTFT p50", text, size=LABEL, hang=LABEL + 2, style="dim")
        return
    _put_times(console, measured, f"measured {measured_on(report, measured)}", plain)
    for text in shortfalls(measured):
        say(console, sanitize(text, ascii_only=plain), indent=LABEL + 2, style="yellow")


def _put_times(console: Console, times: OnOff, basis: str, plain: bool) -> None:
    text = sanitize(f"{medians(times)}; {basis}", ascii_only=plain)
    put_field(console, "TTFT p50", text, size=LABEL, hang=LABEL + 2)
