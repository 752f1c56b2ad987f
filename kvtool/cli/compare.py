"""The command `kvtool compare`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.cli.report import RESULT
from kvtool.config.option import Argument, Option, only
from kvtool.config.shown_options import Showing, Writing
from kvtool.errors import KvtoolError
from kvtool.text.terminal.streams import STDIN, check_piped


@dataclass(frozen=True, kw_only=True)
class CompareCommand(Command):
    """What moved between two saved results: hit rates by group, times, where the tokens went, and causes with their lines.

    Workloads go together by name, causes by code, file and variable: a line that moved is the same cause. Whatever makes the two
    not comparable (another tokenizer, block size or capacity) is said first.
    """

    old: Annotated[str, Argument(RESULT, "OLD")]
    new: Annotated[str, Argument("The same, later.", "NEW")]
    exit_code: Annotated[bool, Option("Exit 1 where a hit rate fell.")] = False
    writing: Annotated[Writing, only("show_text")]
    outputs: Annotated[
        tuple[str, ...],
        Option(
            "Also write PATH, in the format of its extension (json, md, svg, txt) or FMT; repeatable.",
            "[FMT=]PATH",
            flag="--output",
            short="-o",
        ),
    ] = ()
    showing: Annotated[Showing, only("json", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Compare two saved results; 0, or with `exit_code` 1 where a hit rate fell. KvtoolError for files that hold none."""
        check_piped("compare", [self.old, self.new])
        if self.old == self.new == STDIN:
            raise KvtoolError("only one of the two can be standard input", hint="give the other one's file")
        from kvtool.report.comparison_formats import FORMATTERS
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
