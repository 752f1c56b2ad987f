"""From what stands on the command line to a workload that can be run: its source, the plan and the renderer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvtool.chat import ChatTemplate
from kvtool.errors import KvtoolError
from kvtool.profile import Demands
from kvtool.profiler import Profiler
from kvtool.progress import Progress
from kvtool.render import Renderer
from kvtool.settings import ProfileArguments, Setup
from kvtool.tokenize import load_tokenizer
from kvtool.workload.inputs import open_inputs
from kvtool.workload.logs import LogOptions, LogSource, locate
from kvtool.workload.schema import EngineOptions
from kvtool.workload.yaml_source import YamlSource, load_yaml_workload


@dataclass(frozen=True, slots=True)
class Opened:
    """A workload and how it is to be run. `name` is what reports call it."""

    arguments: ProfileArguments
    source: YamlSource | LogSource
    setup: Setup
    renderer: Renderer
    name: str

    @property
    def gates(self) -> dict[str, float]:
        """The hit rates that the workload file demands of its groups."""
        return self.source.gates if isinstance(self.source, YamlSource) else {}

    def profiler(
        self, demands: Demands, progress: Progress, *, source: YamlSource | LogSource | None = None
    ) -> Profiler:
        """For accounting only; `source` stands in for the workload's own, an edited one for example."""
        return Profiler(
            source or self.source,
            self.renderer,
            self.setup.plan,
            demands,
            progress=progress,
            locate=locate,
            path=self.name,
            count_skipped=lambda: (source or self.source).skipped,
        )

    def reloaded(self, overlay: Mapping[str, str]) -> YamlSource:
        """The workload file read again, with the text of some files (by their real paths) replaced."""
        assert isinstance(self.source, YamlSource)
        arguments = self.arguments
        source = load_yaml_workload(
            self.source.path, seed=arguments.seed, on_bad_line=arguments.on_bad_line, overlay=overlay
        )
        return source.select(arguments.groups) if arguments.groups else source


def open_workload(arguments: ProfileArguments) -> Opened:
    """Read the inputs and settle how they are run; KvtoolError for what cannot be."""
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
    name = arguments.inputs[0] if len(arguments.inputs) == 1 else f"{len(arguments.inputs)} files"
    return Opened(arguments, source, setup, renderer, name)
