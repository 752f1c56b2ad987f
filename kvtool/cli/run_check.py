"""The command `kvtool check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from kvtool.config.loading import read_config
from kvtool.gate.check_settings import CheckArguments, CheckSettings, settings_of
from kvtool.gate.run import run_settings
from kvtool.report.outputs import OutputFile, check_outputs, need_views, output_root, write_outputs
from kvtool.report.terminal.next_command import without_outputs
from kvtool.report.write_options import RenderOptions
from kvtool.results.check import CheckResult
from kvtool.results.limit_text import limit_text
from kvtool.text.terminal.console import DEFAULT_WIDTH, make_console
from kvtool.text.terminal.progress import Progress
from kvtool.text.terminal.streams import printing


def run_check(arguments: CheckArguments) -> int:
    """Check, print and write; returns the exit code of the verdict."""
    run = arguments.run
    file = read_config(run.config, no_config=run.no_config)
    settings = settings_of(arguments, file)
    taken = {} if settings.baseline is None else {settings.baseline: "the baseline"}
    if file is not None:
        taken[file.path] = "the configuration"
    outputs = check_outputs(run.outputs, settings.inputs, json=run.json, taken=taken)
    settings = replace(settings, views=run.json or need_views(outputs), show_text=run.show_text or "snippet")
    with Progress(make_console(stderr=True, color=run.color), quiet=run.quiet) as progress:
        result = run_settings(settings, progress)
    with printing():
        _show(result, outputs, settings)
    return result.verdict.exit_code


def _show(result: CheckResult, outputs: Sequence[OutputFile], settings: CheckSettings) -> None:
    """The files, and the report on the terminal unless something else goes to standard output."""
    run = settings.run
    show_text = run.show_text or "none"
    command = tuple(run.command_line or ("check", *settings.inputs))
    shared = limit_text(result, show_text)
    options = RenderOptions(
        show_text=show_text,
        root=output_root(),
        command=tuple(without_outputs(command)),
        width=run.width or DEFAULT_WIDTH,
    )
    write_outputs(shared, outputs, options, quiet=run.quiet)
    if run.json:
        from kvtool.results.model import dump

        sys.stdout.write(dump(shared))
    elif not any(output.to_stdout for output in outputs):
        from kvtool.report.terminal.check import print_check

        console = make_console(color=run.color, width=run.width, plain=run.plain)
        print_check(console, result, show_text=run.show_text or "snippet", command=command)
