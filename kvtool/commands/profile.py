"""The command `kvtool profile`."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from kvtool.atomic_file import AtomicFile
from kvtool.chat import ChatTemplate
from kvtool.errors import KvtoolError
from kvtool.events_out import EventWriter
from kvtool.metrics import prometheus_text
from kvtool.profile import Demands, Profile
from kvtool.profiler import Profiler
from kvtool.progress import Progress
from kvtool.render import Renderer
from kvtool.report.console import make_console
from kvtool.settings import ProfileArguments, Setup, check
from kvtool.streams import discard_stdout
from kvtool.tokenize import load_tokenizer
from kvtool.workload.inputs import open_inputs
from kvtool.workload.logs import LogOptions, locate
from kvtool.workload.schema import EngineOptions
from kvtool.workload.yaml_source import YamlSource


def run_profile(arguments: ProfileArguments) -> int:
    """Profile and print; returns the exit code: 0, 1 where a gate failed, 130 where it was interrupted."""
    check(arguments)
    options = LogOptions(
        on_bad_line=arguments.on_bad_line,
        trace_block_size=arguments.trace_block_size,
        limit=arguments.requests,
        format=arguments.log_format,
    )
    source = open_inputs(arguments.inputs, options, seed=arguments.seed)
    if isinstance(source, YamlSource) and arguments.groups:
        source = source.select(arguments.groups)
    elif arguments.groups:
        raise KvtoolError("--group chooses among the groups of a workload file", hint="leave it out for logs")
    asked = source.engine if isinstance(source, YamlSource) else EngineOptions()
    setup = Setup(arguments, asked, source)
    renderer = Renderer(
        lambda: load_tokenizer(arguments.tokenizer or asked.tokenizer, offline=arguments.offline),
        lambda tokenizer: ChatTemplate.load(arguments.chat_template or asked.chat_template, tokenizer),
    )
    if arguments.chat_template is not None:
        _ = renderer.chat_template  # a file that is named must be there, whether a request needs it or not
    demands = Demands(
        min_hit_rate=arguments.min_hit_rate,
        group_gates=source.gates if isinstance(source, YamlSource) else {},
        advice=arguments.advice,
        per_request=arguments.per_request,
    )
    name = arguments.inputs[0] if len(arguments.inputs) == 1 else f"{len(arguments.inputs)} files"
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
            renderer,
            setup.plan,
            demands,
            progress=progress,
            locate=locate,
            path=name,
            count_skipped=lambda: source.skipped,
            measure=setup.measure_options(),
            native_engine=setup.native_engine(),
            events=events,
        )
        profile = profiler.run()
        if metrics is not None and profiler.metrics is not None:
            metrics.write(prometheus_text(profiler.metrics).encode(errors="replace"))
    device = profile.measured.device if profile.measured is not None else None
    profile.config = setup.describe(name, renderer, device=device)
    profile.notes = setup.notes()
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
    command = arguments.command_line or ("profile", *arguments.inputs)
    print_profile(console, profile, show_text=arguments.show_text != "none", command=command)
