"""Findings in the terminal: place, code, what it costs, the line itself, and what the fix gave."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.diagnose.finding_cost import cost_of
from kvtool.diagnose.finding_line import QuotedLine, quoted_line, redacted_line
from kvtool.report.terminal.lines import shown_path
from kvtool.report.terminal.marked_line import put_marked_line
from kvtool.report.terminal.next_command import shell_lines, shorten_middle
from kvtool.report.views.findings import finding_place
from kvtool.results.finding import Finding, gain_basis
from kvtool.results.shared_line import by_line
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.console import cell_width, fold, put, sanitize
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold"}
_MOST = 8
_TOLD_ALONE = 0.005
_GLUE = "\xa0"
"""A space at which no line is broken; it is shown as a plain one."""
_FIGURE = re.compile(r"(?<=[0-9]) ")
"""Between a figure and its unit."""


def print_findings(
    console: Console,
    findings: Sequence[Finding],
    *,
    plain: bool,
    show_text: ShowText,
    read_files: bool = True,
    header: Sequence[str] = (),
    next_command: Sequence[str] = (),
) -> None:
    """Print the costliest findings, each with its source line where text may be shown.

    `read_files` False shows only lines that the findings bring along. Names of the `header` and the `next_command`, which the
    screen shows already, are not repeated.
    """
    proven = None if header else next((finding for finding in findings if finding.rerun is not None), None)
    said = set[str]()
    lines = by_line(findings)
    told, rest = _told(lines)
    for index, (finding, *others) in enumerate(told):
        if index:
            put(console)
        _finding(console, finding, plain, show_text, read_files, header, next_command, finding is proven, said)
        _put_other_groups(console, others, plain, said)
    if rest:
        put(console)
        put(console, f"{plural(sum(map(len, rest)), 'more finding')} (all with --json)", "dim")


def _told(lines: Sequence[list[Finding]]) -> tuple[list[list[Finding]], list[list[Finding]]]:
    """Divide lines into those that are shown and the rest, both in their order: every kept fix, then the costliest."""
    fixed = [any(finding.rerun is not None for finding in line) for line in lines]
    room = max(_MOST - sum(fixed), 0)
    told, rest = list[list[Finding]](), list[list[Finding]]()
    for line, is_fixed in zip(lines, fixed, strict=True):
        shown = is_fixed or room > 0
        room -= shown and not is_fixed
        (told if shown else rest).append(line)
    return told, rest


def _finding(
    console: Console,
    finding: Finding,
    plain: bool,
    show_text: ShowText,
    read_files: bool,
    header: Sequence[str],
    next_command: Sequence[str],
    says_verified: bool,
    said: set[str],
) -> None:
    place = place_shown(finding, plain, header)
    group = shorten_middle(sanitize(finding.group, ascii_only=plain), max(console.width // 2, 20), ascii_only=plain)
    group = "" if finding.group in header else group
    message = sanitize(finding.message, ascii_only=plain)
    tier = f" [{finding.tier}]" if finding.tier is not None else ""
    head = f"{finding.code} {finding.severity}{tier}: {f'{group}: ' if group else ''}{message}"
    if place:
        head = f"{place}: {head}"
    if finding.group:  # else it was seen in a file, and nothing was measured
        cost = _FIGURE.sub(_GLUE, cost_of(finding))
        head += f" ({cost})" if cost else ""
    for number, line in enumerate(_folded(head, console.width)):
        put(console, line, None if number else _STYLES[finding.severity])
    put_finding_text(
        console, finding, plain=plain, show_text=show_text, read_files=read_files, next_command=next_command
    )
    text = f"  help: {sanitize(finding.fix, ascii_only=plain)}"
    if finding.rerun is not None:
        rerun = finding.rerun
        total = _change(rerun.total_before, rerun.total_after)
        gains = [f"{group} {_change(rerun.group_before, rerun.group_after)}"] if group else [total]
        gains += [f"all groups with all fixes {total}"] if group and not header else []
        new = [gain for gain in gains if gain not in said]  # fixes that were tried together have one gain
        said.update(new)
        text += f": {', '.join(new)}" if new else ""
        if rerun.group_alone is not None and abs(rerun.group_alone - rerun.group_after) >= _TOLD_ALONE:
            text += f"; only this one: {percent(rerun.group_alone)}"
        basis = gain_basis(finding.warnings, estimate=finding.estimate)
        text += " (estimate)" if finding.estimate else ""
        text += " (verified by re-running)" if says_verified and basis == "verified" else ""
    for line in _folded(text, console.width):
        put(console, line)
    for warning in finding.warnings:
        for line in _folded(f"  note: {sanitize(warning, ascii_only=plain)}", console.width):
            put(console, line, "yellow")


def _put_other_groups(console: Console, others: Sequence[Finding], plain: bool, said: set[str]) -> None:
    """Print a line for each other group whose prompts have the line of the finding above, the costliest ones."""
    for other in others[:_MOST]:
        group = shorten_middle(sanitize(other.group, ascii_only=plain), max(console.width // 2, 20), ascii_only=plain)
        cost = _FIGURE.sub(_GLUE, cost_of(other))
        cost = f" ({cost})" if cost else ""
        record = f", {sanitize(other.record, ascii_only=plain)}" if other.record else ""
        gain = ""
        if other.rerun is not None:
            gain = f": {_change(other.rerun.group_before, other.rerun.group_after)}"
            said.add(f"{group}{gain[1:]}")
        for line in _folded(f"  also in {group}{record}{cost}{gain}", console.width):
            put(console, line)
    if len(others) > _MOST:
        put(console, f"  and in {plural(len(others) - _MOST, 'more group')}", "dim")


def place_shown(finding: Finding, plain: bool, header: Sequence[str] = ()) -> str:
    """Return the place of a finding as text that neither the terminal nor a CI log obeys; no folder of what the `header` names."""
    at = finding.logged
    if finding.path in header and (at is not None or not finding.line):
        return sanitize(finding.named_record, ascii_only=plain)
    return shown_path(finding_place(finding, joint="-" if plain else "·"), plain)


def _change(before: float, after: float) -> str:
    return f"{percent(before)}{_GLUE}->{_GLUE}{percent(after)}"


def _folded(text: str, width: int) -> list[str]:
    """Break lines at spaces, but not within a figure and its unit."""
    return [line.replace(_GLUE, " ") for line in fold(text, width, indent=4)]


def put_finding_text(
    console: Console,
    finding: Finding,
    *,
    plain: bool,
    show_text: ShowText,
    read_files: bool = True,
    next_command: Sequence[str] = (),
) -> None:
    """Print the line; of a log the line before and after the change, with the command that shows both.

    The command is not repeated where it is the `next_command`.
    """
    example = finding.example
    if example is None:
        if finding.line and (finding.in_source or finding.snippet is not None):
            put_excerpt(console, finding, plain=plain, show_text=show_text, read_files=read_files)
        return
    if show_text != "none":
        for label, line in (("was", example.was_line), ("now", example.now_line)):
            if line is not None:
                _put_line(console, f"   {label}", QuotedLine.of(line), plain=plain, show_text=show_text)
    words = shlex.split(example.command)
    if words[1:] == [*next_command]:
        return
    for number, text in enumerate(shell_lines(words, console.width - 6, plain)):
        put(console, f"  see:{text[1:]}" if not number else f"      {text}")


def put_excerpt(
    console: Console, finding: Finding, *, plain: bool, show_text: ShowText, read_files: bool = True
) -> None:
    """Print the line of the file; for logs, whose lines are whole records, the line of the prompt; nothing where neither is known.

    What looks secret in it is blacked out unless `show_text` is `full`.
    """
    meant = quoted_line(finding, read_files=read_files) if show_text != "none" else None
    if meant is None:
        return
    number = str(finding.line) if finding.in_source else "..."
    _put_line(console, f"   {number}", meant, plain=plain, show_text=show_text)


def _put_line(console: Console, label: str, meant: QuotedLine, *, plain: bool, show_text: ShowText) -> None:
    """Print a line, cut to the console, with carets under what the finding is about."""
    if show_text == "snippet":
        meant = redacted_line(meant)
    line, start, width = meant.text, meant.start, meant.width
    room = console.width - len(label) - 3
    first = max(start - room // 3, 0) if cell_width(sanitize(line, ascii_only=plain)) > room else 0
    put_marked_line(console, label, line.rstrip(), start, max(width, 1), first=first, room=room, style="bold yellow")
