"""Turn the command line's inputs into a workload that can be run: its source, the plan and the renderer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from kvtool.accounting.event_writer import EventWriter
from kvtool.config.asked_run import RunOptions, given_options_of
from kvtool.config.command_line import flag, flags
from kvtool.config.layers import merged
from kvtool.config.options.pricing_options import amount_of, share_of
from kvtool.diagnose import codes
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError, ProblemsError
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.planned_run import PlannedRun
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run_description import run_config, run_notes
from kvtool.results.report import Report
from kvtool.text.files.text_files import Overlay
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.inputs import divide, open_inputs
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.yaml.schema import EngineOptions

if TYPE_CHECKING:
    from kvtool.accounting.prices.price_table import PriceTable
    from kvtool.profiler.advice.kept_fixes import Advice
    from kvtool.profiler.optimize.edited_files import Optimized
    from kvtool.profiler.reported.event_comparison import EventComparison
    from kvtool.profiler.run.run_result import RunResult
    from kvtool.workload.yaml.yaml_source import YamlSource


@dataclass(frozen=True, slots=True)
class Opened:
    """A workload and its settings for runs. `name` is its name in reports.

    `tokenizer` and `chat_template` are the user's names; None for the usual ones.
    """

    options: RunOptions
    source: YamlSource | LogSource
    planned: PlannedRun
    renderer: Renderer
    name: str
    tokenizer: str | None = None
    chat_template: str | None = None

    @property
    def group_names(self) -> list[str] | None:
        """Its groups; None where only the run shows them, as logs name their own."""
        return None if isinstance(self.source, LogSource) else [group.name for group in self.source.groups]

    @property
    def paths(self) -> Sequence[str]:
        """The files of its inputs."""
        return self.source.files.paths if isinstance(self.source, LogSource) else self.options.inputs

    def profiler(
        self,
        wanted: ReportOptions,
        progress: Progress,
        *,
        source: YamlSource | LogSource | None = None,
        measure: bool = False,
        events: EventWriter | None = None,
    ) -> Profiler:
        """Return a profiler for accounting and, with `measure`, the requested real runs.

        `source` replaces the workload's own, for example by an edited one; `events` gets the cache's events.
        """
        return Profiler(
            source or self.source,
            self.renderer,
            self.planned.plan,
            wanted,
            progress=progress,
            locate=locate,
            path=self.name,
            count_skipped=lambda: (source or self.source).skipped,
            measure=self.planned.measure_options() if measure else None,
            native_engine=self.planned.native_engine() if measure else None,
            events=events,
            jobs=self.options.reading.jobs,
            pair_command=self._pair_command(),
            prices=cache(self._prices),
            gpu_hour=amount_of(self.options.pricing.gpu_hour),
            beside=self._server_events() if measure else None,
            plan_edits=None if isinstance(self.source, LogSource) else partial(self._planned_edits, wanted, progress),
        )

    def _planned_edits(
        self, wanted: ReportOptions, progress: Progress, profiler: Profiler, result: RunResult
    ) -> tuple[Optimized, Advice]:
        from kvtool.profiler.optimize.edit_plans import first_edits, plan_edits
        from kvtool.profiler.optimize.edited_runs import EditedRuns

        plan = first_edits if wanted.edits == "first" else plan_edits
        return plan(EditedRuns(self, progress, known=(profiler, result)))

    def _server_events(self) -> EventComparison | None:
        """Return the KV events of a server, if given; read once before any work is done."""
        path = self.options.measuring.kv_events
        if path is None:
            return None
        from kvtool.measure.engine_extra import need_live

        need_live(flag("kv_events"))
        from kvtool.profiler.reported.event_comparison import EventComparison

        return EventComparison(path)

    def _prices(self) -> PriceTable:
        """Requested prices before the built-in ones; read once."""
        from kvtool.accounting.prices.price_table import price_table

        pricing = self.options.pricing
        return price_table(pricing.prices, share_of(pricing.discount))

    def _pair_command(self) -> PairCommand:
        """Return the command that shows two requests of its logs side by side: read and rendered as here."""
        planned = self.planned
        size, hosted = planned.plan.engine.block_size, planned.plan.hosted
        in_engine = self.chat_template is None and planned.has_hosted_models
        options = flags(
            tokenizer=self.tokenizer,
            chat_template=self.chat_template,
            block_size=size if not hosted and (in_engine or size != EngineConfig.block_size) else None,
            provider=self.options.caching.provider if hosted and not planned.has_hosted_models else None,
        )
        return PairCommand(options, self.options.reading.log_format)

    def run(self, profiler: Profiler) -> Report:
        """Return the report, with all measured results and all settings that affect it."""
        return self.measured(profiler, self.accounted(profiler))

    def accounted(self, profiler: Profiler) -> Report:
        """Return the report before anything is measured."""
        return self._described(profiler, profiler.run())

    def measured(self, profiler: Profiler, report: Report) -> Report:
        """Return the same report with the results of real runs, if requested."""
        return self._described(profiler, profiler.measured(report))

    def _described(self, profiler: Profiler, report: Report) -> Report:
        measured = report.ttft.measured
        config = run_config(
            self.planned, self.name, self.renderer, device=None if measured is None else measured.device
        )
        if report.kv_cache.bytes_per_block is None:  # unknown, or the requests name several models
            config |= {"model": None, "model_from": None}
        if report.ttft.predicted.on is None:
            config |= {"accelerator": None}
        simulated = report.misses is None or report.misses.predictable
        notes = [
            *self.options.notes,
            *(run_notes(self.planned) if simulated else ()),
            *self._read_notes(),
            *profiler.told,
        ]
        notes += [profiler.interrupted] if profiler.interrupted is not None else []
        files = list(self.options.inputs) if len(self.options.inputs) > 1 else []
        return report.model_copy(update={"config": config, "notes": notes, "files": files})

    def _read_notes(self) -> list[str]:
        """Return notes: the files read, their order, and their division into groups."""
        named = (
            ["Only these groups ran: text that other groups send first counts as new."]
            if self.options.reading.groups
            else []
        )
        if not isinstance(self.source, LogSource):
            asked = self.options.reading.group_by is not None
            return [*named, *(["--group-by needs a log: a workload file names its groups"] if asked else [])]
        from kvtool.workload.logs.formats.known_formats import format_titles

        names = self.source.format_names
        told = [f"Log format: {format_titles(', '.join(names))}."] if names else []
        files = self.source.files.notes(name_all=self.options.reading.verbose)
        return [*named, *files, *told, *self.source.outcome.notes]

    @property
    def wrong_usage(self) -> list[str]:
        """Return the note on usage that contradicts itself, where the last pass found any."""
        return list(self.source.outcome.wrong_usage) if isinstance(self.source, LogSource) else []

    def check_read(self) -> None:
        """After a run: KvtoolError, or ProblemsError for several, where a file could not be read to its end."""
        errors = list(self.source.outcome.failed.values()) if isinstance(self.source, LogSource) else []
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ProblemsError(errors)

    def require_prompts(self) -> None:
        """KvtoolError where no record holds a prompt: then there is nothing to edit, and nothing to run."""
        from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT, SUMMED

        if not isinstance(self.source, LogSource):
            return
        lack = None
        for conversation in self.source.conversations():
            turn = conversation.next_turn(None)
            if turn is not None and (lack := turn.call.incomplete) not in (NO_PROMPT, SUMMED):
                return
        if lack is not None:
            raise KvtoolError(
                f"{self.name}: {lack}, so no change can be tried",
                hint="kvtool profile shows what was reported",
            )

    def reloaded(self, overlay: Mapping[str, str]) -> YamlSource:
        """Return the workload file read again, with the text of some files (by their real paths) replaced."""
        from kvtool.workload.yaml.yaml_source import load_yaml_workload

        assert not isinstance(self.source, LogSource)
        reading = self.options.reading
        source = load_yaml_workload(
            self.source.path,
            seed=self.source.seed,
            on_bad_line=reading.on_bad_line,
            overlay=overlay,
            codes=codes,
            allow_outside=reading.allow_outside,
        )
        return source.select(reading.groups) if reading.groups else source


def open_workload(
    options: RunOptions,
    load: Callable[[str | None], Tokenizer],
    *,
    overlay: Overlay | None = None,
    source: YamlSource | LogSource | None = None,
    keep_going: bool = False,
) -> Opened:
    """Read the inputs and settle the settings of runs; KvtoolError for impossible ones.

    `load` returns the tokenizer of a name; several workloads can share one. `overlay` has texts to read in place of files of a
    workload, `source` replaces the inputs' source. `keep_going`: one unreadable log of several does not hide the others; the
    caller calls `check_read` afterwards.
    """
    reading, rendering = options.reading, options.rendering
    log_options = LogOptions(
        on_bad_line=reading.on_bad_line,
        trace_block_size=options.tracing.trace_block_size,
        limit=reading.requests,
        format=options.log_format,
        tenant=options.tenant,
        groups=tuple(reading.groups),
    )
    if source is None:
        source = open_inputs(
            options.inputs,
            log_options,
            seed=reading.seed,
            default_seed=options.fallback_seed,
            overlay=overlay,
            codes=codes,
            allow_outside=reading.allow_outside,
            group_by=options.group_by,
            keep_going=keep_going,
        )
    elif reading.group_by is not None and isinstance(source, LogSource):
        divide(source, reading.group_by)
    if not isinstance(source, LogSource) and reading.groups:
        source = source.select(reading.groups)
    asked = EngineOptions() if isinstance(source, LogSource) else source.engine
    asked = merged(asked, options.fallback, given_options_of(options))
    planned = PlannedRun(options, asked, source)
    if isinstance(source, LogSource):
        source.drops_billing_header = planned.plan.by_vllm or planned.plan.hosted
        source.each_answer = not planned.plan.hosted
        source.scope_of = planned.run_model.scope_of if planned.plan.models is not None else None
    tokenizer = rendering.tokenizer or asked.tokenizer
    chat_template = rendering.chat_template or asked.chat_template
    by_provider = chat_template is None and planned.plan.hosted

    def template(loaded: Tokenizer) -> ChatTemplate:
        return ChatTemplate.hosted(loaded) if by_provider else ChatTemplate.load(chat_template, loaded)

    renderer = Renderer(lambda: load(tokenizer), template)
    if rendering.chat_template is not None:
        _ = renderer.chat_template  # a file that is named must be there, whether a request needs it or not
    if options.pricing.prices is not None:
        from kvtool.accounting.prices.price_table import price_table

        price_table(options.pricing.prices)  # report its errors before any work is done
    name = options.inputs[0] if len(options.inputs) == 1 else f"{options.inputs[0]} +{len(options.inputs) - 1}"
    return Opened(options, source, planned, renderer, name, tokenizer, chat_template)
