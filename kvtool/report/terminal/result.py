"""The terminal view of any result: a profile, a check of several workloads, or findings alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.config.command_line import flags
from kvtool.engine.config import EngineConfig
from kvtool.lint.findings.lint_result import LintResult
from kvtool.report.terminal.profile_blocks.contradictions import check_report
from kvtool.results.check import CheckResult
from kvtool.results.documents.lint import LintInput
from kvtool.results.report import Report
from kvtool.results.show_text import ShowText
from kvtool.text.tokens.tokenizer_files import BUILT_IN

if TYPE_CHECKING:
    from rich.console import Console


def print_result(
    console: Console,
    result: CheckResult,
    *,
    show_text: ShowText,
    command: tuple[str, ...] = (),
    boundaries: bool = False,
    details: bool = False,
    read_files: bool = False,
) -> None:
    """The result as its command printed it, no wider than the console; KvtoolError where its figures contradict each other.

    `command` is what stood behind `kvtool`, where that is known. `read_files` shows the lines of files that findings are about,
    where they still fit; else only lines that were saved. `boundaries` asks for the view of block sizes, `details` for what the
    engine did.
    """
    if result.command == "lint":
        from kvtool.report.terminal.lint import print_lint

        found = LintResult(
            inputs=[LintInput(path=path, kind="text", note=None) for path in result.inputs],
            findings=result.findings,
            ignored=result.ignored,
            partial=result.verdict.outcome == "partial",
        )
        print_lint(console, found, show_text=show_text, quiet=False, read_files=read_files)
    elif result.command == "profile" and len(result.reports) == 1:
        from kvtool.report.terminal.profile import ShownProfile, print_profile

        [report] = result.reports
        check_report(report)
        shown = ShownProfile(
            show_text=show_text,
            command=command or profile_command(report),
            boundaries=boundaries,
            details=details,
            read_files=read_files,
        )
        print_profile(console, report, shown)
    else:
        from kvtool.report.terminal.check import print_check

        print_check(console, result, show_text=show_text, command=command or ("check",), read_files=read_files)


def profile_command(report: Report) -> tuple[str, ...]:
    """The command that would make this report again, as far as its configuration tells."""
    config = report.config
    tokenizer, block_size = config.get("tokenizer"), config.get("block_size")
    options = flags(
        tokenizer=tokenizer if isinstance(tokenizer, str) and tokenizer != BUILT_IN else None,
        block_size=block_size if block_size != EngineConfig.block_size else None,
        capacity=config.get("capacity_blocks") or None,
        concurrency=config.get("concurrency") or None,
        seed=config.get("seed") or None,
    )
    return "profile", report.workload if Path(report.workload).exists() else "WORKLOAD", *options
