"""The command `kvtool profile`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from kvtool.accounting.event_writer import EventWriter
from kvtool.accounting.metrics import prometheus_text
from kvtool.config.arguments import ProfileArguments, check
from kvtool.gate.profiled import asked_baseline, judge
from kvtool.profiler.opening import open_workload
from kvtool.profiler.profiler import Demands, Profiler
from kvtool.report.outputs import OutputFile, check_outputs, need_views, output_root, write_outputs
from kvtool.report.terminal.next_command import without_outputs
from kvtool.report.write_options import RenderOptions
from kvtool.results.report import Report
from kvtool.results.show_text import ShowText
from kvtool.results.verdict_of import verdict_on
from kvtool.results.views import Timeline
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.terminal.console import DEFAULT_WIDTH, make_console
from kvtool.text.terminal.progress import Progress
from kvtool.text.terminal.streams import printing


def run_profile(arguments: ProfileArguments) -> int:
    """Profile and print; returns the exit code: 0, 1 where a gate failed, 130 where it was interrupted."""
    check(arguments)
    outputs = _outputs(arguments)
    baseline = asked_baseline(arguments)
    opened = open_workload(arguments)
    demands = Demands(
        advice=arguments.advice,
        per_request=arguments.per_request,
        by=arguments.by,
        views=arguments.json or need_views(outputs),
    )
    with ExitStack() as stack:
        progress = stack.enter_context(
            Progress(make_console(stderr=True, color=arguments.color), quiet=arguments.quiet)
        )
        # Opened before any work is done: a path that cannot be written is told at once, and nothing is half written.
        events = metrics = None
        if arguments.events is not None:
            block_size = opened.setup.plan.engine.block_size
            events = stack.enter_context(EventWriter(arguments.events, block_size=block_size))
        if arguments.metrics is not None:
            metrics = stack.enter_context(AtomicFile(arguments.metrics))
        profiler = opened.profiler(demands, progress, measure=True, events=events)
        report = opened.run(profiler)
        if metrics is not None and profiler.metrics is not None:
            metrics.write(prometheus_text(profiler.metrics).encode(errors="replace"))
    report = judge(report, opened, *baseline)
    printed = not arguments.json and not any(output.to_stdout for output in outputs)
    saved = _saved(profiler, report, arguments.show_text or "none") if outputs or arguments.json else None
    if saved is not None and outputs:
        _write(saved, outputs, arguments)
    with printing():
        if saved is not None and arguments.json:
            sys.stdout.write(saved.to_json())
        elif printed:
            _print(report, profiler.timelines, arguments)
    return verdict_on(report).exit_code


def _outputs(arguments: ProfileArguments) -> list[OutputFile]:
    """What `-o` asks for; KvtoolError for what cannot be written."""
    taken = {
        arguments.events: "the file of --events",
        arguments.metrics: "the file of --metrics",
        arguments.calibration: "the calibration",
        arguments.chat_template: "the chat template",
        arguments.tokenizer: "the tokenizer",
        arguments.baseline: "the baseline",
    }
    known = {path: what for path, what in taken.items() if path is not None}
    return check_outputs(arguments.outputs, arguments.inputs, json=arguments.json, taken=known)


def _saved(profiler: Profiler, report: Report, show_text: ShowText) -> Report:
    """The report for files and programs, with as much of prompts as may be shown."""
    from kvtool.profiler.document import saved_report
    from kvtool.profiler.quotes import patches_of

    patches = patches_of(profiler, report.findings) if show_text == "full" else None
    return saved_report(report, show_text=show_text, patches=patches)


def _write(report: Report, outputs: Sequence[OutputFile], arguments: ProfileArguments) -> None:
    from kvtool.results.wrap import check_of

    options = RenderOptions(
        show_text=arguments.show_text or "none",
        root=output_root(),
        command=tuple(without_outputs(arguments.command_line or ("profile", *arguments.inputs))),
        width=arguments.width or DEFAULT_WIDTH,
    )
    write_outputs(check_of(report), outputs, options, quiet=arguments.quiet)


def _print(report: Report, timelines: Sequence[Timeline], arguments: ProfileArguments) -> None:
    from kvtool.report.terminal.profile import print_profile

    console = make_console(color=arguments.color, width=arguments.width, plain=arguments.plain)
    print_profile(
        console,
        report,
        timelines=timelines,
        show_text=arguments.show_text or "snippet",
        command=arguments.command_line or ("profile", *arguments.inputs),
        optimize=_optimize_command(report, arguments),
        boundaries=arguments.boundaries,
    )


def _optimize_command(report: Report, arguments: ProfileArguments) -> list[str]:
    """The command that edits this workload, with those flags that decide what its prompts hit."""
    sized = arguments.capacity is not None or arguments.gpu_memory is not None
    flags = {
        "--tokenizer": arguments.tokenizer,
        "--chat-template": arguments.chat_template,
        "--block-size": arguments.block_size,
        "--capacity": report.config["capacity_blocks"] if sized else None,
        "--concurrency": arguments.concurrency,
        "--on-bad-line": "skip" if arguments.on_bad_line == "skip" else None,
        "--requests": arguments.requests,
        "--seed": arguments.seed,
        "--config": arguments.config,
    }
    command = ["optimize", *arguments.inputs]
    for flag, value in flags.items():
        command += [flag, str(value)] if value is not None else []
    for group in arguments.groups:
        command += ["--group", group]
    command += ["--no-config"] if arguments.no_config else []
    return [*command, "--offline"] if arguments.offline else command
