"""The command `kvtool profile`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, Panel, check_values, only, option_fields, walk
from kvtool.config.options.judged_options import Limits
from kvtool.config.options.pricing_options import Pricing
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import (
    Caching,
    Measuring,
    Mirroring,
    Predicting,
    Reading,
    Rendering,
    Serving,
    Tracing,
)
from kvtool.config.options.shown_options import Configured, Showing, Writing
from kvtool.errors import KvtoolError
from kvtool.results.choices import By
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.config.asked_run import RunOptions
    from kvtool.profiler.profiler import Profiler
    from kvtool.report.outputs import OutputFile
    from kvtool.results.report import Report
    from kvtool.results.views import Timeline


@dataclass(frozen=True, kw_only=True)
class ProfileCommand(Command):
    """Profile prompts: hit rate, token breakdown, TTFT, and what to change."""

    inputs: Annotated[
        tuple[str, ...],
        Argument(
            "Logs, workload.yaml, prompts, folders or - (stdin); else the only workload of kvtool.toml",
            "INPUT",
            configured=True,
        ),
    ] = ()
    predicting: Predicting
    rendering: Rendering
    serving: Serving
    mirroring: Mirroring
    caching: Caching
    tracing: Tracing
    rule_flags: RuleFlags
    pricing: Pricing
    reading: Reading
    measuring: Measuring
    advice: Annotated[bool, Option("Try fixes for the costliest causes.", flag="--advice/--no-advice")] = True
    limits: Limits
    by: Annotated[
        By | None,
        Option("Breakdown by session, tenant or line; with usage also by event, project, model or day.", "KEY"),
    ] = None
    view: Annotated[Writing, only("details", "boundaries")]
    per_request: Annotated[bool, Option("List every request in the JSON.", panel=Panel.ADVANCED)] = False
    writing: Annotated[Writing, only("show_text", "outputs")]
    configured: Configured
    showing: Showing

    copy_first: ClassVar[tuple[str, ...]] = ()
    """The command that copies the inputs to where the proposed commands find them."""

    def run(self) -> int:
        """Profile and print; 0, 1 where a gate failed, 130 where it was interrupted."""
        check_piped("profile", self.inputs)
        if self.tracing.rules == "all":
            return self._every_engine()
        from contextlib import ExitStack

        from kvtool.accounting.event_writer import EventWriter
        from kvtool.accounting.metrics import prometheus_text
        from kvtool.gate.profiled import chosen_baseline, judge
        from kvtool.lint.lint_inputs import refuse_templates
        from kvtool.profiler.opening import open_workload
        from kvtool.profiler.profiler import ReportOptions
        from kvtool.profiler.reported.server_run import requested_server
        from kvtool.report.outputs import need_views
        from kvtool.results.verdict_of import verdict_on
        from kvtool.text.files.atomic_file import AtomicFile
        from kvtool.text.terminal.streams import printing
        from kvtool.text.tokens.tokenizer import Tokenizers

        refuse_templates(self.inputs)
        options = self.options()
        check_values(self.limits)
        options.check()
        outputs = self._outputs()
        baseline = chosen_baseline(self.limits)
        options = requested_server(options, offline=self.showing.offline)
        opened = open_workload(options, Tokenizers(offline=self.showing.offline), keep_going=True)
        wanted = ReportOptions(
            advice=self.advice, per_request=self.per_request, by=self.by, views=self.showing.json or need_views(outputs)
        )
        with ExitStack() as stack:
            progress = stack.enter_context(self.showing.progress())
            # Opened before any work is done: a path that cannot be written is told at once, and nothing is half written.
            events = metrics = None
            if self.measuring.events is not None:
                engine = opened.planned.plan.engine
                tokens = not self.measuring.events_no_tokens
                groups = engine.plan.groups if engine.plan is not None else ()
                writer = EventWriter(self.measuring.events, block_size=engine.block_size, tokens=tokens, groups=groups)
                events = stack.enter_context(writer)
            if self.measuring.metrics is not None:
                metrics = stack.enter_context(AtomicFile(self.measuring.metrics))
            profiler = opened.profiler(wanted, progress, measure=True, events=events)
            report = judge(opened.accounted(profiler), opened, self.limits, *baseline)
            if metrics is not None and profiler.metrics is not None:
                metrics.write(prometheus_text(profiler.metrics).encode(errors="replace"))
            printed = not self.showing.json and not any(output.to_stdout for output in outputs)
            if printed:
                progress.hide()
                with printing():
                    self._print(report, profiler.timelines)
            report = judge(opened.measured(profiler, report), opened, self.limits, *baseline)
        if events is not None and events.tells_prompts and not self.showing.quiet:
            self._report_event_file()
        saved = self._saved(profiler, report) if outputs or self.showing.json else None
        if saved is not None and outputs:
            self._write(saved, outputs)
        with printing():
            if saved is not None and self.showing.json:
                sys.stdout.write(saved.to_json())
            elif printed:
                self._print_ending(report, options)
        if not report.partial:
            opened.check_read()
        return verdict_on(report).exit_code

    def _every_engine(self) -> int:
        """Return the same as `kvtool compare-engines`; KvtoolError for an option that it does not have."""
        from kvtool.cli.commands.compare_engines import CompareEnginesCommand

        taken = {each.name for each in walk(CompareEnginesCommand)} | {"rules", "advice", "dry_run"}
        parts: list[object] = [self, *(value for value in vars(self).values() if is_dataclass(value))]
        for part in parts:
            kind: type = type(part)
            for each in option_fields(kind):
                if each.name in taken or not isinstance(each.mark, Option):
                    continue
                if getattr(part, each.name) != each.default:
                    flag = each.mark.long_flag(each.name)
                    hint = "kvtool compare-engines --help has what does"
                    raise KvtoolError(f"{flag} does not go with --rules all", hint=hint)
        return CompareEnginesCommand(
            inputs=self.inputs,
            predicting=self.predicting,
            rendering=self.rendering,
            serving=self.serving,
            caching=self.caching,
            tracing=Tracing(),
            rule_flags=self.rule_flags,
            reading=self.reading,
            outputs=self.writing.outputs,
            configured=self.configured,
            showing=self.showing,
        ).run()

    def options(self) -> RunOptions:
        """Return the options of the run, over those of the configuration file."""
        from kvtool.config.asked_run import RunOptions
        from kvtool.config.loading import read_config

        return RunOptions(
            inputs=self.inputs,
            predicting=self.predicting,
            rendering=self.rendering,
            serving=self.serving,
            mirroring=self.mirroring,
            caching=self.caching,
            tracing=self.tracing,
            rule_flags=self.rule_flags,
            pricing=self.pricing,
            reading=self.reading,
            measuring=self.measuring,
        ).over(read_config(self.configured, allow_outside=self.reading.allow_outside))

    def _report_event_file(self) -> None:
        """Warn that the file of --events contains prompts."""
        from kvtool.text.terminal.console import sanitize

        path = sanitize(self.measuring.events or "", ascii_only=True)
        print(f"written: {path} (KV events; prompts as token ids: --events-no-tokens leaves them out)", file=sys.stderr)

    def _outputs(self) -> list[OutputFile]:
        """Return the files of `-o`. Raises KvtoolError for files that cannot be written."""
        from kvtool.report.outputs import check_outputs

        taken = {
            self.measuring.events: "the file of --events",
            self.measuring.metrics: "the file of --metrics",
            self.measuring.kv_events: "what --kv-events reads",
            self.predicting.calibration: "the calibration",
            self.rendering.chat_template: "the chat template",
            self.rendering.tokenizer: "the tokenizer",
            self.limits.baseline: "the baseline",
        }
        known = {path: what for path, what in taken.items() if path is not None}
        return check_outputs(
            self.writing.outputs,
            self.inputs,
            json=self.showing.json,
            taken=known,
            allow_outside=self.reading.allow_outside,
        )

    def _saved(self, profiler: Profiler, report: Report) -> Report:
        """Return the report for files and programs, with as much of prompts as may be shown."""
        from kvtool.profiler.document import saved_report
        from kvtool.profiler.patches import patches_of

        show_text = self.writing.in_files
        patches = patches_of(profiler, report.findings) if show_text == "full" else None
        return saved_report(report, show_text=show_text, patches=patches)

    def _write(self, report: Report, outputs: Sequence[OutputFile]) -> None:
        from kvtool.config.command_line import CommandLine
        from kvtool.report.outputs import output_root, write_outputs
        from kvtool.report.write_options import WriteOptions
        from kvtool.results.wrap import check_of
        from kvtool.text.terminal.console import DEFAULT_WIDTH

        options = WriteOptions(
            show_text=self.writing.in_files,
            root=output_root(),
            command=CommandLine(self.showing.command_line or ("profile", *self.inputs)).without_output(),
            width=self.showing.width or DEFAULT_WIDTH,
        )
        write_outputs(check_of(report), outputs, options, quiet=self.showing.quiet)

    def _print(self, report: Report, timelines: Sequence[Timeline]) -> None:
        """Print everything that is known before anything is measured."""
        from kvtool.report.terminal.profile import ShownProfile, print_accounted

        shown = ShownProfile(
            timelines=timelines,
            show_text=self.writing.in_terminal,
            command=self.showing.command_line or ("profile", *self.inputs),
            optimize=self._optimize_command(report),
            copy_first=self.copy_first,
            boundaries=self.view.boundaries,
            details=self.view.details,
        )
        print_accounted(self.showing.console(), report, shown)

    def _print_ending(self, report: Report, options: RunOptions) -> None:
        from kvtool.config.asked_run import check_lines
        from kvtool.report.terminal.profile import ShownProfile, print_ending

        asked = self.limits.min_hit_rate
        shown = ShownProfile(
            boundaries=self.view.boundaries,
            details=self.view.details,
            held_by=() if asked is None else check_lines(options, asked),
        )
        print_ending(self.showing.console(), report, shown)

    def _optimize_command(self, report: Report) -> list[str]:
        """Return the command that edits this workload, with the options that decide what its prompts hit."""
        from kvtool.cli.edit_command import edit_command

        config = report.config
        capacity, block_size = config["capacity_blocks"], config["block_size"]
        if self.mirroring.server is None:
            return edit_command(self, self.inputs, capacity)
        return edit_command(self, self.inputs, capacity, capacity=capacity, block_size=block_size)
