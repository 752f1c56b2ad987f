"""The command `kvtool logs`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.options.run_options import Reading
from kvtool.config.options.shown_options import Configured, Showing, Writing
from kvtool.errors import join_errors
from kvtool.text.terminal.streams import check_piped


@dataclass(frozen=True, kw_only=True)
class LogsCommand(Command):
    """Show what logs contain: format, requests, sessions, tenants, models, times, reported tokens, skipped records.

    It tokenizes and runs nothing. For a file that is no log of prompts, the error names what it looks like.
    """

    inputs: Annotated[tuple[str, ...], Argument("Logs, traces, folders or - (stdin)", "INPUT")] = ()
    requests: Annotated[
        bool,
        Option(
            "List every request with --json; text, users and sessions need --show-text full.",
            flag="--per-request",
            also="--requests",
        ),
    ] = False
    reading: Annotated[Reading, only("on_bad_line", "log_format", "log_map", "tenant")]
    configured: Configured
    writing: Annotated[Writing, only("show_text")]
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Print what is in the logs. KvtoolError, or ProblemsError, for what cannot be read."""
        check_values(self)
        check_piped("logs", self.inputs)
        from kvtool.config.asked_run import RunOptions
        from kvtool.config.loading import read_config
        from kvtool.report.terminal.logs import print_logs
        from kvtool.text.terminal.streams import printing
        from kvtool.workload.logs.files.input_files import find_inputs
        from kvtool.workload.logs.logs import LogOptions, LogSource
        from kvtool.workload.logs.overview import overview_of

        asked = RunOptions(inputs=self.inputs, reading=self.reading).over(read_config(self.configured))
        options = LogOptions(on_bad_line=self.reading.on_bad_line, format=asked.log_format, tenant=asked.tenant)
        source = LogSource(find_inputs(self.inputs, log_format=options.format), options)
        document = overview_of(source, rows=self.requests, full=self.writing.show_text == "full")
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                print_logs(self.showing.console(), document, [*source.files.notes(), *document.notes])
        if source.outcome.failed:
            raise join_errors(list(source.outcome.failed.values()))
        return 0
