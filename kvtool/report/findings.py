"""Findings in the terminal: place, code, what it costs, the line itself, and what the fix gave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.diagnose.findings import Finding
from kvtool.report.console import cell_width, fold, put, sanitize
from kvtool.report.diff import shown_path
from kvtool.report.marked_line import put_marked_line
from kvtool.report.next_command import shorten_middle
from kvtool.report.numbers import duration, percent

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold"}
_MOST = 20
_LONGEST_LINE = 2000
_TOLD_ALONE = 0.005
_GLUE = "\xa0"
"""A space at which no line is broken; it is shown as a plain one."""


def print_findings(console: Console, findings: Sequence[Finding], *, plain: bool, show_text: bool) -> None:
    """The costliest findings, each with its source line where text may be shown."""
    for index, finding in enumerate(findings[:_MOST]):
        if index:
            put(console)
        _finding(console, finding, plain, show_text)
    if len(findings) > _MOST:
        put(console)
        put(console, f"{len(findings) - _MOST:,} more findings: --json has them all", "dim")


def _finding(console: Console, finding: Finding, plain: bool, show_text: bool) -> None:
    place = shown_path(finding.path, plain)
    if finding.line:
        place += f":{finding.line}:{finding.column}"
    group = shorten_middle(sanitize(finding.group, ascii_only=plain), max(console.width // 2, 20), ascii_only=plain)
    message = sanitize(finding.message, ascii_only=plain)
    tier = f" [{finding.tier}]" if finding.tier is not None else ""
    head = f"{place}: {finding.code} {finding.severity}{tier}: {group}: {message} ({_cost(finding)})"
    for line in _folded(head, console.width):
        put(console, line, _STYLES[finding.severity] if line.startswith(place) else None)
    if show_text and finding.line and (finding.in_source or finding.excerpt):
        put_excerpt(console, finding, plain=plain)
    text = f"  help: {finding.fix}"
    if finding.rerun is not None:
        rerun = finding.rerun
        text += (
            f"; {group} {_change(rerun.group_before, rerun.group_after)}, "
            f"all {_change(rerun.total_before, rerun.total_after)} (measured by running again)"
        )
        if rerun.alone is not None and abs(rerun.alone - rerun.group_after) >= _TOLD_ALONE:
            text += f"; this fix alone: {percent(rerun.alone)}"
    for line in _folded(text, console.width):
        put(console, line)
    for warning in finding.warnings:
        for line in _folded(f"  look: {sanitize(warning, ascii_only=plain)}", console.width):
            put(console, line, "yellow")


def _change(before: float, after: float) -> str:
    return f"{percent(before)}{_GLUE}->{_GLUE}{percent(after)}"


def _folded(text: str, width: int) -> list[str]:
    """Lines that are broken at spaces, but not within a figure and its unit."""
    return [line.replace(_GLUE, " ") for line in fold(text, width, indent=4)]


def _cost(finding: Finding) -> str:
    """Tokens and, where they are known, points of the group's hit rate and predicted seconds."""
    parts = [f"{finding.tokens_lost:,}{_GLUE}tokens lost"]
    if finding.points:
        parts.append(f"{100 * finding.points:.1f}{_GLUE}pts")
    if finding.ttft_seconds is not None and finding.ttft_seconds > 0:
        parts.append(f"predicted TTFT +{duration(finding.ttft_seconds).replace(' ', _GLUE)}")
    return ", ".join(parts)


def put_excerpt(console: Console, finding: Finding, *, plain: bool) -> None:
    """The line of the file; for logs, whose lines are whole records, the line of the prompt."""
    line = _line_of(str(Path(finding.path).absolute()), finding.line)
    start, width = finding.column - 1, finding.width
    if line is None or not finding.in_source or start >= _LONGEST_LINE:
        line, start, width = finding.excerpt, finding.excerpt_start, finding.excerpt_stop - finding.excerpt_start
    number = str(finding.line) if finding.in_source else "..."
    label = f"   {number}"
    room = console.width - len(label) - 3
    first = max(start - room // 3, 0) if cell_width(sanitize(line, ascii_only=plain)) > room else 0
    put_marked_line(console, label, line.rstrip(), start, max(width, 1), first=first, room=room, style="bold yellow")


@lru_cache(maxsize=64)
def _line_of(path: str, line: int) -> str | None:
    """A line of a text file; None where it is no such file any more."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace", newline="\n") as file:
            found = next(islice(file, line - 1, line), None)
    except (OSError, ValueError):
        return None
    return None if found is None else found.rstrip("\r\n")[:_LONGEST_LINE]
