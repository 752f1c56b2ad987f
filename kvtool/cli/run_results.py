"""The commands `kvtool report` and `kvtool compare`: results that were saved."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.errors import KvtoolError
from kvtool.report.outputs import check_outputs, in_root, output_root, write_outputs, write_texts
from kvtool.report.write_options import RenderOptions
from kvtool.results.files import load_result
from kvtool.results.limit_text import limit_text, text_in
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.console import DEFAULT_WIDTH, ColorChoice, make_console
from kvtool.text.terminal.streams import STDIN, printing

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.results.check import CheckResult
    from kvtool.results.report import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What both command lines have; `show_text` None shows what the file has."""

    show_text: ShowText | None = None
    outputs: Sequence[str] = ()
    json: bool = False
    quiet: bool = False
    color: ColorChoice = "auto"
    plain: bool = False
    width: int | None = None

    def console(self) -> Console:
        """Standard output, as it was asked for."""
        return make_console(color=self.color, width=self.width, plain=self.plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportArguments(_Shown):
    """The command line of `kvtool report`."""

    result: str
    boundaries: bool = False


def run_report(arguments: ReportArguments) -> int:
    """Render a saved result; 0, or KvtoolError for a file that holds none."""
    outputs = check_outputs(arguments.outputs, [arguments.result], json=arguments.json)
    result = limit_text(load_result(arguments.result), arguments.show_text)
    if outputs:
        write_outputs(result, outputs, _options(result, arguments), quiet=arguments.quiet)
    if arguments.json or not any(output.to_stdout for output in outputs):
        with printing():
            _show(result, arguments)
    return 0


def _show(result: CheckResult, arguments: ReportArguments) -> None:
    if arguments.json:
        from kvtool.report.json_document import render

        sys.stdout.write(render(result, RenderOptions()))
        return
    from kvtool.report.terminal.result import print_result

    print_result(
        arguments.console(),
        _own(result),
        show_text=arguments.show_text or "snippet",
        boundaries=arguments.boundaries,
        read_files=True,
    )


def _own(result: CheckResult) -> CheckResult:
    """The same, so that of files elsewhere than in the repository no line is read: anybody may have written the result."""

    def each(findings: list[Finding]) -> list[Finding]:
        return [one if in_root(one.path) else one.model_copy(update={"in_source": False}) for one in findings]

    reports = [report.model_copy(update={"findings": each(report.findings)}) for report in result.reports]
    return result.model_copy(update={"findings": each(result.findings), "reports": reports})


def _options(result: CheckResult, arguments: ReportArguments) -> RenderOptions:
    return RenderOptions(
        show_text=text_in(result),
        root=output_root(),
        command=("report", arguments.result),
        width=arguments.width or DEFAULT_WIDTH,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareArguments(_Shown):
    """The command line of `kvtool compare`."""

    old: str
    new: str
    exit_code: bool = False


def run_compare(arguments: CompareArguments) -> int:
    """Compare two saved results; 0, or with `exit_code` 1 where a hit rate fell. KvtoolError for files that hold none."""
    if arguments.old == arguments.new == STDIN:
        raise KvtoolError("only one of the two can be standard input", hint="give the other one's file")
    from kvtool.report.comparison_formats import FORMATTERS

    inputs = [arguments.old, arguments.new]
    outputs = check_outputs(arguments.outputs, inputs, json=arguments.json, formats=tuple(FORMATTERS))

    from kvtool.gate.compare_results import compare_results
    from kvtool.report.terminal.comparison import print_comparison

    comparison = compare_results(
        load_result(arguments.old), load_result(arguments.new), old_name=arguments.old, new_name=arguments.new
    )
    options = RenderOptions(width=arguments.width or DEFAULT_WIDTH)
    write_texts(
        [(output, FORMATTERS[output.format.name](comparison, options)) for output in outputs], quiet=arguments.quiet
    )
    with printing():
        if arguments.json:
            sys.stdout.write(FORMATTERS["json"](comparison, options))
        elif not any(output.to_stdout for output in outputs):
            print_comparison(arguments.console(), comparison, show_text=arguments.show_text or "snippet")
    return int(arguments.exit_code and comparison.outcome == "fell")
