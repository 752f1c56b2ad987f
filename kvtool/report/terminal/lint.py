"""Findings as a linter prints them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.config.command_line import CommandLine, flags
from kvtool.config.find import find_config, from_here
from kvtool.lint.findings.lint_result import LintResult
from kvtool.lint.folders.folder_files import not_read
from kvtool.lint.probe.probing import GROUP as PROBE
from kvtool.report.terminal.edits import put_edits, put_undo
from kvtool.report.terminal.findings import place_shown, put_finding_text
from kvtool.report.terminal.lines import put_next, shown_path
from kvtool.results.documents.lint import Fixed
from kvtool.results.finding import Finding
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.console import ascii_only, fold, put, sanitize
from kvtool.text.terminal.numbers import in_words, percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_MOST = 200
_SAFE = ("P0", "P1")
_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold"}


def print_lint(
    console: Console,
    result: LintResult,
    *,
    show_text: ShowText,
    quiet: bool,
    read_files: bool = True,
    command: CommandLine | None = None,
) -> None:
    """The findings (the first 200) with their lines, then how many there are; `quiet` leaves out all but the findings.

    `read_files` False shows only lines that the findings bring along. `command` is what was asked for, without options of output.
    """
    plain = ascii_only(console)
    told = [finding for finding in result.findings if result.probe is None or finding.group != PROBE]  # told already
    for finding in told[:_MOST]:
        fixable = result.can_fix(finding)
        _finding(console, finding, fixable, plain=plain, show_text=show_text, read_files=read_files)
    if len(told) > _MOST:
        put(console, f"{len(told) - _MOST:,} more findings (all with --json)", "dim")
    if quiet:
        return
    if told:
        put(console)
    for one in result.inputs:
        if one.note:
            _folded(console, f"{shown_path(one.path, plain)}: {one.note}")
    if result.fixed is not None:
        _fixed(console, result.fixed, len(result.findings), plain)
    _folded(console, _summary(result))
    if result.findings:
        _folded(console, f"Details: kvtool explain {_costliest(result).code}", "dim")
    if command is not None and (step := _next_step(result, command)) is not None:
        put(console)
        put_next(console, *step)


_STDIN = "-"
_RUN = ("workload", "logs", "prompts")


def _next_step(result: LintResult, command: CommandLine) -> tuple[str, Sequence[str]] | None:
    """Return what to do next, and the command for it: preview edits, or measure what was only read."""
    paths = [one.path for one in result.inputs]
    is_told = result.findings or any(one.note for one in result.inputs if one.kind == "logs")
    if not is_told or not paths or _STDIN in paths or result.partial or result.fixed or result.probe:
        return None
    if fixable := [finding for finding in result.findings if result.can_fix(finding)]:
        unsafe = any(finding.tier not in _SAFE for finding in fixable)
        return "preview the edits", command.with_(diff=True, unsafe_fixes=unsafe or None)
    if any(one.kind in _RUN for one in result.inputs):
        return "see where reuse is lost", command.to(
            "profile", *(one.path for one in result.inputs if one.kind in _RUN)
        )
    folder = os.path.commonpath([os.path.dirname(path) for path in paths]) or "."  # noqa: PTH120 - a string, as all inputs are
    if find_config() is not None:
        return "measure the hit rate", ("check",)
    if (config := find_config(folder)) is not None:
        return "measure the hit rate", ("check", *flags(config=from_here(config)))
    is_below = not os.path.relpath(folder).startswith(
        os.pardir
    )  # the code that renders a prompt is often in another folder
    return "measure the hit rate", ("init", *(() if is_below else (folder,)))


def _fixed(console: Console, fixed: Fixed, left: int, plain: bool) -> None:
    """Print the edited files, and how to undo that."""
    for path in fixed.paths:
        _folded(console, f"Edited {shown_path(path, plain)}")
    put_edits(console, fixed.edits, fixed.notes)
    if fixed.undo_with is not None:
        put(console, "Undo with:")
        put_undo(console, fixed.undo_with)
    _folded(console, f"{fixed.findings:,} fixed, {left:,} remaining")


def _costliest(result: LintResult) -> Finding:
    rank = ("error", "warning", "info")
    return min(result.findings, key=lambda one: (rank.index(one.severity), -one.tokens_lost, one.code))


def _summary(result: LintResult) -> str:
    parts = [
        plural(result.count("error"), "error"),
        plural(result.count("warning"), "warning"),
        f"{result.count('info'):,} info",
    ]
    text = ", ".join(part for part in parts if not part.startswith("0 ")) or "no findings"
    places = [plural(len(result.inputs), "input")] if result.inputs or result.probe is None else []
    text += f" in {in_words([*places, *(['a probe'] if result.probe is not None else [])])}"
    if result.passed_over:
        text += f"; {plural(result.passed_over, 'file')} without prompts skipped"
    if result.outside:
        text += f"; {plural(len(result.outside), 'link')} to files outside the repository not read"
    if result.unread:
        text += f"; {not_read(result.unread)} not read"
    if result.ignored:
        text += f"; {result.ignored:,} ignored"
    if result.withheld:
        text += f"; {result.withheld[0]}"
    if len(result.withheld) > 1:
        text += f" ({plural(len(result.withheld), 'log')})"
    fixable = [finding for finding in result.findings if result.can_fix(finding)]
    safe = sum(finding.tier in _SAFE for finding in fixable)
    if safe:
        text += f"; {safe:,} marked [*] can be fixed with --fix"
    if unsafe := len(fixable) - safe:
        text += f"; {unsafe:,} {'more ' if safe else 'marked [*] '}can be fixed with --fix --unsafe-fixes"
    return f"PARTIAL: interrupted; {text}" if result.partial else text


def _finding(
    console: Console, finding: Finding, fixable: bool, *, plain: bool, show_text: ShowText, read_files: bool
) -> None:
    place = place_shown(finding, plain)
    group = f"{sanitize(finding.group, ascii_only=plain)}: " if finding.group else ""
    star = " [*]" if fixable else ""
    lost = f" ({finding.tokens_lost:,} tokens lost)" if finding.group and finding.tokens_lost else ""
    head = (
        f"{place}: {finding.code} {finding.severity}{star} {group}{sanitize(finding.message, ascii_only=plain)}{lost}"
    )
    for number, line in enumerate(fold(head, console.width, indent=4)):
        put(console, line, None if number else _STYLES[finding.severity])
    if finding.line:
        put_finding_text(console, finding, plain=plain, show_text=show_text, read_files=read_files)
    if finding.fix:
        text = f"  help: {sanitize(finding.fix, ascii_only=plain)}" + (f" [{finding.tier}]" if finding.tier else "")
        if finding.rerun is not None:
            rerun = finding.rerun
            text += f": {group}{percent(rerun.group_before)} -> {percent(rerun.group_after)} (verified)"
        _folded(console, text)
    for warning in finding.warnings:
        _folded(console, f"  note: {sanitize(warning, ascii_only=plain)}")


def _folded(console: Console, text: str, style: str | None = None) -> None:
    for line in fold(text, console.width, indent=4):
        put(console, line, style)
