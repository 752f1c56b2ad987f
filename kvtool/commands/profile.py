"""The command `kvtool profile`."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from kvtool.atomic_file import AtomicFile
from kvtool.events_out import EventWriter
from kvtool.metrics import prometheus_text
from kvtool.opening import open_workload
from kvtool.profile import Demands, Profile
from kvtool.profiler import Profiler
from kvtool.progress import Progress
from kvtool.report.console import make_console
from kvtool.settings import ProfileArguments, check
from kvtool.streams import discard_stdout
from kvtool.workload.logs import locate


def run_profile(arguments: ProfileArguments) -> int:
    """Profile and print; returns the exit code: 0, 1 where a gate failed, 130 where it was interrupted."""
    check(arguments)
    opened = open_workload(arguments)
    source, setup = opened.source, opened.setup
    demands = Demands(
        min_hit_rate=arguments.min_hit_rate,
        group_gates=opened.gates,
        advice=arguments.advice,
        per_request=arguments.per_request,
        by=arguments.by,
    )
    with ExitStack() as stack:
        progress = stack.enter_context(
            Progress(make_console(stderr=True, color=arguments.color), quiet=arguments.quiet)
        )
        # Opened before any work is done: a path that cannot be written is told at once, and nothing is half written.
        events = metrics = None
        if arguments.events is not None:
            events = stack.enter_context(EventWriter(arguments.events, block_size=setup.plan.engine.block_size))
        if arguments.metrics is not None:
            metrics = stack.enter_context(AtomicFile(arguments.metrics))
        profiler = Profiler(
            source,
            opened.renderer,
            setup.plan,
            demands,
            progress=progress,
            locate=locate,
            path=opened.name,
            count_skipped=lambda: source.skipped,
            measure=setup.measure_options(),
            native_engine=setup.native_engine(),
            events=events,
        )
        profile = profiler.run()
        if metrics is not None and profiler.metrics is not None:
            metrics.write(prometheus_text(profiler.metrics).encode(errors="replace"))
    device = profile.measured.device if profile.measured is not None else None
    profile.config = setup.describe(opened.name, opened.renderer, device=device)
    profile.notes = setup.notes()
    profile.editable = not arguments.json and profiler.editable()
    try:
        _print(profile, arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; the gates hold all the same
        discard_stdout()
    if profile.partial:
        return 130
    return 1 if profile.failed else 0


def _print(profile: Profile, arguments: ProfileArguments) -> None:
    if arguments.json:
        from kvtool.report.json_profile import dump

        sys.stdout.write(dump(profile))
        return
    from kvtool.report.profile import print_profile

    console = make_console(color=arguments.color, width=arguments.width)
    print_profile(
        console,
        profile,
        show_text=arguments.show_text != "none",
        command=arguments.command_line or ("profile", *arguments.inputs),
        optimize=_optimize_command(profile, arguments),
        boundaries=arguments.boundaries,
    )


def _optimize_command(profile: Profile, arguments: ProfileArguments) -> list[str]:
    """The command that edits this workload, with those flags that decide what its prompts hit."""
    sized = arguments.capacity is not None or arguments.gpu_memory is not None
    flags = {
        "--tokenizer": arguments.tokenizer,
        "--chat-template": arguments.chat_template,
        "--block-size": arguments.block_size,
        "--capacity": profile.config["capacity_blocks"] if sized else None,
        "--concurrency": arguments.concurrency,
        "--on-bad-line": "skip" if arguments.on_bad_line == "skip" else None,
        "--requests": arguments.requests,
        "--seed": arguments.seed,
    }
    command = ["optimize", *arguments.inputs]
    for flag, value in flags.items():
        command += [flag, str(value)] if value is not None else []
    for group in arguments.groups:
        command += ["--group", group]
    return [*command, "--offline"] if arguments.offline else command
