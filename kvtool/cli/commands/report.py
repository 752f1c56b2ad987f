"""The command `kvtool report`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, only
from kvtool.config.options.shown_options import Showing, Writing
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.report.outputs import OutputFile
    from kvtool.results.check import CheckResult
    from kvtool.results.documents.what_if import WhatIfDocument
    from kvtool.results.finding import Finding


@dataclass(frozen=True, kw_only=True)
class ReportCommand(Command):
    """Show a saved result again, in the terminal or in any format: kvtool report result.json -o report.html.

    It judges nothing: the exit code is 0.
    """

    result: Annotated[str, Argument("JSON that kvtool profile, check, lint or what-if wrote, or - (stdin)", "RESULT")]
    writing: Writing
    showing: Annotated[Showing, only("json", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Render a saved result; 0, or KvtoolError for a file that holds none."""
        check_piped("report", [self.result])
        from kvtool.report.outputs import check_outputs, output_root, write_outputs
        from kvtool.report.terminal.any_result import profile_command
        from kvtool.report.write_options import WriteOptions
        from kvtool.results.documents.what_if import WhatIfDocument
        from kvtool.results.files import load_saved
        from kvtool.results.limit_text import limit_text, text_in
        from kvtool.text.terminal.console import DEFAULT_WIDTH
        from kvtool.text.terminal.streams import printing

        outputs = check_outputs(self.writing.outputs, [self.result], json=self.showing.json)
        saved = load_saved(self.result)
        if isinstance(saved, WhatIfDocument):
            return self._what_if(saved, outputs)
        result = limit_text(saved, self.writing.show_text)
        if outputs:
            options = WriteOptions(
                show_text=text_in(result),
                root=output_root(),
                command=profile_command(result.reports[0]) if len(result.reports) == 1 else ("report", self.result),
                width=self.showing.width or DEFAULT_WIDTH,
                details=self.writing.details,
            )
            write_outputs(result, outputs, options, quiet=self.showing.quiet)
        if self.showing.json or not any(output.to_stdout for output in outputs):
            with printing():
                self._show(result)
        return 0

    def _what_if(self, document: WhatIfDocument, outputs: list[OutputFile]) -> int:
        """Return the same of what `kvtool what-if` found; KvtoolError for a format that it has not."""
        from kvtool.report.formats.what_if_formats import FORMATTERS, write_what_if
        from kvtool.report.outputs import parse_output
        from kvtool.report.terminal.plan_views.what_if import print_what_if
        from kvtool.text.terminal.console import DEFAULT_WIDTH
        from kvtool.text.terminal.streams import printing

        for spec in self.writing.outputs:
            parse_output(spec, tuple(FORMATTERS))
        write_what_if(document, outputs, width=self.showing.width or DEFAULT_WIDTH, quiet=self.showing.quiet)
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            elif not any(output.to_stdout for output in outputs):
                print_what_if(self.showing.console(), document)
        return 0

    def _show(self, result: CheckResult) -> None:
        if self.showing.json:
            from kvtool.report.formats.json_document import write
            from kvtool.report.write_options import WriteOptions

            sys.stdout.write(write(result, WriteOptions()))
            return
        from kvtool.report.terminal.any_result import print_result

        print_result(
            self.showing.console(),
            _own(result),
            show_text=self.writing.in_terminal,
            boundaries=self.writing.boundaries,
            details=self.writing.details,
            read_files=True,
        )


def _own(result: CheckResult) -> CheckResult:
    """Return the same, so that of files elsewhere than in the repository no line is read: anybody may have written the result."""
    from kvtool.report.outputs import in_root

    def each(findings: list[Finding]) -> list[Finding]:
        return [one if in_root(one.path) else one.model_copy(update={"in_source": False}) for one in findings]

    reports = [report.model_copy(update={"findings": each(report.findings)}) for report in result.reports]
    return result.model_copy(update={"findings": each(result.findings), "reports": reports})
