"""The command `kvtool compare`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.options.shown_options import Showing, Writing
from kvtool.errors import KvtoolError
from kvtool.text.quantities import parse_duration
from kvtool.text.terminal.streams import STDIN, check_piped

_SAME = 0.0005
"""A change of hit rates that figures with a tenth of a point do not show."""


@dataclass(frozen=True, kw_only=True)
class CompareCommand(Command):
    """Compare two saved results: hit rates by group, times, token breakdown and causes.

    Workloads match by name, and causes by code, file and variable, so a moved line is the same cause. Another tokenizer,
    block size or capacity is reported first.

    OLD or NEW can be a server, or a file of its /metrics. The table then shows predicted and served figures.
    """

    old: Annotated[str, Argument("JSON of profile, check or lint, or -; or a server's URL or /metrics file", "OLD")]
    new: Annotated[str, Argument("Later result or /metrics of the same kind", "NEW")]
    before: Annotated[
        str | None,
        Option("Metrics of the server before the run, to leave out older requests.", "FILE"),
    ] = None
    window: Annotated[
        str | None, Option("Time between two readings of the server's counters.", "TIME", check=bounds.a_while)
    ] = None
    exit_code: Annotated[bool, Option("Exit 1 if a hit rate fell.")] = False
    writing: Annotated[Writing, only("show_text")]
    outputs: Annotated[
        tuple[str, ...],
        Option(
            "Report to write: .json, .md, .svg or .txt; repeatable.",
            "[FMT=]PATH",
            flag="--output",
            short="-o",
        ),
    ] = ()
    showing: Annotated[Showing, only("json", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Compare two saved results; 0, or with `exit_code` 1 where a hit rate fell. KvtoolError for files that hold none."""
        check_piped("compare", [self.old, self.new])
        check_values(self)
        from kvtool.measure.servers.metrics.counters import names_counters

        if names_counters(self.old):
            return self._beside_server()
        if self.before is not None or self.window is not None:
            flag = "--before" if self.before is not None else "--window"
            raise KvtoolError(
                f"{flag} needs a server, but OLD is a saved result", hint="give the URL of the server as OLD"
            )
        if self.old == self.new == STDIN:
            raise KvtoolError("only one input can be standard input", hint="name a file for the other")
        from kvtool.report.formats.comparison_formats import FORMATTERS
        from kvtool.report.outputs import check_outputs, write_texts

        formats = tuple(FORMATTERS)
        outputs = check_outputs(self.outputs, [self.old, self.new], json=self.showing.json, formats=formats)

        from kvtool.gate.compare_results import compare_results
        from kvtool.report.terminal.comparison import print_comparison
        from kvtool.report.write_options import WriteOptions
        from kvtool.results.files import load_result
        from kvtool.text.terminal.console import DEFAULT_WIDTH
        from kvtool.text.terminal.streams import printing

        comparison = compare_results(load_result(self.old), load_result(self.new), old_name=self.old, new_name=self.new)
        options = WriteOptions(width=self.showing.width or DEFAULT_WIDTH)
        texts = [(output, FORMATTERS[output.format.name](comparison, options)) for output in outputs]
        write_texts(texts, quiet=self.showing.quiet)
        with printing():
            if self.showing.json:
                sys.stdout.write(FORMATTERS["json"](comparison, options))
            elif not any(output.to_stdout for output in outputs):
                print_comparison(self.showing.console(), comparison, show_text=self.writing.in_terminal)
        return int(self.exit_code and comparison.outcome == "fell")

    def _beside_server(self) -> int:
        """Put the report beside a server's counters; 0, or with `exit_code` 1 where it served a lower rate."""
        if self.outputs:
            raise KvtoolError("--output does not work with a server", hint="use --json")
        if self.before is not None and self.window is not None:
            raise KvtoolError("--before and --window both say where the counting begins", hint="leave one out")
        from kvtool.gate.predicted_and_served import beside_server
        from kvtool.measure.servers.metrics.counters import looking
        from kvtool.report.terminal.server_views.compared_server import print_server_comparison
        from kvtool.results.files import load_result
        from kvtool.text.terminal.streams import printing

        result = load_result(self.new)
        before = None
        if self.before is not None:
            with looking(self.before, what="--before") as look:
                before = replace(look(), at=None)  # when it was taken, the file does not say
        with looking(self.old, what="what a server counted") as look:
            if self.window is not None:
                before = look()
                time.sleep(parse_duration(self.window))
            beside = beside_server(result, before, look(), source=self.old, report=self.new)
        with printing():
            if self.showing.json:
                sys.stdout.write(beside.to_json())
            else:
                print_server_comparison(self.showing.console(), beside)
        return int(self.exit_code and beside.difference is not None and beside.difference < -_SAME)
