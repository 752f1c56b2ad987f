"""The command `kvtool what-if`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from kvtool.cli.command import Command
from kvtool.config.command_line import flag, flags
from kvtool.config.option import Argument, Option, check_values, only, walk
from kvtool.config.options.clock_options import Clocking
from kvtool.config.options.routing_options import Routed
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import Caching, Predicting, Reading, Rendering, Serving, Tracing
from kvtool.config.options.shown_options import Configured, Showing
from kvtool.config.options.sweep_options import Fixing, Sweeping, check_together
from kvtool.config.options.tier_options import Splitting, Tiering
from kvtool.errors import KvtoolError
from kvtool.results.choices import Axis
from kvtool.text.comma_list import comma_list
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtool.fixes.fix import Fix
    from kvtool.profiler.opening import Opened
    from kvtool.profiler.what_if.change_table import EditsOf
    from kvtool.profiler.what_if.planned_change import Flags
    from kvtool.profiler.what_if.routing_rows import RoutingSweep
    from kvtool.profiler.what_if.sweeps import SweepOptions
    from kvtool.profiler.what_if.table_clock import TableFleet
    from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
    from kvtool.workload.block_trace import BlockTrace
    from kvtool.workload.tasks.task_options import TaskOptions


@dataclass(frozen=True, kw_only=True)
class WhatIfCommand(Command):
    """Compare changes in one table: another cache, other blocks, more accelerators, other prompts.

    kvtool counts each row on your requests and prints the command that repeats it. --sweep varies one setting alone. For a log of
    hosted models the table prices other cache breakpoints, times to live, cache keys and models.
    """

    inputs: Annotated[
        tuple[str, ...],
        Argument(
            "Logs, traces, workload.yaml, folders or - (stdin); else the only workload of kvtool.toml",
            "INPUT",
            configured=True,
        ),
    ] = ()
    sweeping: Sweeping
    fixing: Fixing
    routed: Routed
    tiering: Tiering
    splitting: Splitting
    clocking: Clocking
    caching: Annotated[Caching, only("use_timestamps")]
    predicting: Predicting
    rendering: Rendering
    serving: Serving
    tracing: Annotated[Tracing, only("rules", "trace_block_size")]
    rule_flags: RuleFlags
    reading: Annotated[
        Reading,
        only(
            "on_bad_line",
            "log_format",
            "log_map",
            "tenant",
            "requests",
            "group_by",
            "groups",
            "seed",
            "allow_outside",
            "jobs",
        ),
    ]
    outputs: Annotated[
        tuple[str, ...],
        Option(
            "Report to write: .json, .md, .html, .csv, .txt or .svg; repeatable.",
            "[FMT=]PATH",
            flag="--output",
            short="-o",
        ),
    ] = ()
    configured: Configured
    showing: Annotated[Showing, only("json", "offline", "quiet", "color", "plain", "width", "command_line")]

    def run(self) -> int:
        """Count and print; KvtoolError for what cannot be read or does not go together."""
        check_values(self)
        check_piped("what-if", self.inputs)
        from kvtool.lint.lint_inputs import refuse_templates
        from kvtool.report.formats.what_if_formats import FORMATTERS, write_what_if
        from kvtool.report.outputs import check_outputs
        from kvtool.text.terminal.console import DEFAULT_WIDTH
        from kvtool.text.terminal.streams import printing

        refuse_templates(self.inputs)
        outputs = check_outputs(
            self.outputs,
            self.inputs,
            json=self.showing.json,
            formats=tuple(FORMATTERS),
            allow_outside=self.reading.allow_outside,
        )
        document = self._document()
        write_what_if(document, outputs, width=self.showing.width or DEFAULT_WIDTH, quiet=self.showing.quiet)
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            elif not any(output.to_stdout for output in outputs):
                from kvtool.report.terminal.plan_views.what_if import print_what_if

                print_what_if(self.showing.console(), document)
        return 0

    def _document(self) -> WhatIfDocument:
        from kvtool.profiler.what_if.change_table import TableOptions, WhatIfTable
        from kvtool.profiler.what_if.planning_pass import block_trace
        from kvtool.profiler.what_if.sweep_tasks import swept
        from kvtool.profiler.what_if.sweeps import SweepOptions, sweep_document
        from kvtool.workload.tasks.task_options import TaskOptions

        tasks = TaskOptions(self.reading.jobs)
        axis = self.sweeping.axis
        check_together(
            self.sweeping,
            tiering=self.tiering,
            splitting=self.splitting,
            routed=self.routed,
            clocking=self.clocking,
            fixed=self.fixing.fixed,
        )
        opened = self._opened()
        plan = opened.planned.plan
        asked = None if axis is None else SweepOptions.of(axis, self.sweeping, whole=plan.by_trace_study)
        if plan.hosted and asked is None:
            self._check_hosted()
            from kvtool.profiler.what_if.hosted_table import hosted_document

            with self.showing.progress() as progress:
                return hosted_document(opened, self._edits_of(opened), progress, advice=self.fixing.advice)
        if asked is not None and not (plan.by_engine or plan.by_trace_study):
            return self._by_engine(opened, asked, tasks)
        grouped = plan.engine.plan is not None
        with self.showing.progress() as progress:
            if asked is None or grouped:
                table = TableOptions(
                    self._command,
                    self._edits_of(opened),
                    fixed=tuple(comma_list(self.fixing.fixed)),
                    advice=self.fixing.advice,
                    fleet=self._fleet(),
                )
                if not grouped and plan.cache is None:
                    return WhatIfTable(opened, table, progress).document()
                from kvtool.profiler.what_if.run_table import RunTable

                self._check_without_clock(opened, axis)
                runs = RunTable(opened, table, progress)
                return runs.document() if asked is None else runs.of_capacities(asked.capacities)
            trace, notes = block_trace(opened, progress)
            if axis == "policy" and plan.by_engine and tuple(asked.policies) != ("opt",):
                from kvtool.profiler.what_if.pool_policy import of_pool

                trace, asked = of_pool(opened, trace, asked, notes)
            lost: list[str] = []
            if axis in ("routing", "replicas"):
                sweep = self._routing(axis, opened, trace)
                rows, lost = sweep.rows(tasks, progress, self._command), sweep.notes
            elif axis in ("tier", "pd"):
                rows = self._fleet_rows(axis, opened, trace, notes)
            else:
                rows, lost = swept(trace, asked, tasks, progress)
        return sweep_document(opened, trace, [*notes, *lost], asked, rows)

    def _clock_options(self) -> list[str]:
        """Return the given options of clocks and fleets."""
        return [
            each.name
            for of in (self.routed, self.clocking)
            for each in walk(type(of))
            if getattr(of, each.name) != each.default
        ]

    def _check_hosted(self) -> None:
        """Raise KvtoolError for an option of the table of an own server, which the table of a hosted log would not follow."""
        given = self._clock_options()
        if self.fixing.fixed is not None:
            given.append("fixed")
        if given:
            own = f"{flag('block_size')} N"
            raise KvtoolError(
                f"{flag(given[0])} is for a server of your own, and a hosted API served these requests",
                hint=f"omit {flag(given[0])}; or add {own} to plan a server of your own",
            )

    def _check_without_clock(self, opened: Opened, axis: Axis | None) -> None:
        """Raise KvtoolError for what needs blocks of one size by vLLM's rules, where each row is a run of all requests."""
        given = [flag(name) for name in self._clock_options()]
        if axis not in (None, "capacity"):
            given.insert(0, f"--sweep {axis}")
        elif self.sweeping.sample < 1:
            given.append(flag("sample"))
        if given:
            plan = opened.planned.plan
            grouped = f"{plan.latency.geometry.name} has several groups of layers"
            raise KvtoolError(
                f"{given[0]} supports one group of layers by vLLM's rules"
                + (f", and {grouped}" if plan.engine.plan is not None else ""),
                hint=f"omit {given[0]}; --sweep capacity supports several groups",
            )

    def _by_engine(self, opened: Opened, asked: SweepOptions, tasks: TaskOptions) -> WhatIfDocument:
        """By another engine's own cache, where its users can choose who leaves it."""
        plan = opened.planned.plan
        if not plan.by_radix_tree:
            from kvtool.engine.rules.rule_sets import find_rule_set

            found = find_rule_set(plan.rules)
            raise KvtoolError(
                f"what-if follows vllm, sglang or block-lru, not {plan.rules}:"
                f" by {found.engine} the first to go is {found.eviction}",
                hint="kvtool compare-engines compares all engines in one table",
            )
        from kvtool.profiler.what_if.radix_sweeps import RadixSweep

        sweep = RadixSweep(opened, asked, self._command)
        with self.showing.progress() as progress:
            return sweep.document(tasks, progress)

    def _routing(self, axis: Axis, opened: Opened, trace: BlockTrace) -> RoutingSweep:
        """Return the sweep over routers or replicas."""
        from kvtool.profiler.what_if.fleet_rows import FleetPlan
        from kvtool.profiler.what_if.routing_rows import FleetOptions, RoutingSweep

        plan = opened.planned.plan
        if not plan.by_engine:
            raise KvtoolError("replicas follow vLLM's rules, not those of trace studies", hint="leave --rules out")
        asked = FleetOptions.of(axis, self.routed)
        slo, speedup = self.clocking.objectives(), self.clocking.speedup
        return RoutingSweep(FleetPlan.of(trace, opened.planned, slo=slo, speedup=speedup), asked, seed=plan.seed)

    def _fleet_rows(
        self, axis: Literal["tier", "pd"], opened: Opened, trace: BlockTrace, notes: list[str]
    ) -> list[SweepRow]:
        """Rows of what a fleet is built of; `notes` get what there is to say of them."""
        from kvtool.profiler.what_if.fleet_sweeps import FleetSweep, one_of

        if not opened.planned.plan.by_engine:
            raise KvtoolError(f"--sweep {axis} follows vllm's rules", hint="leave --rules out")
        sweep = FleetSweep(
            opened,
            trace,
            notes,
            slo=self.clocking.objectives(),
            speedup=self.clocking.speedup,
            replicas=one_of("replicas", self.routed.counts()) if axis == "tier" else None,
            routing=one_of("routing", self.routed.names()),
            view=self.routed.router_view,
        )
        if axis == "tier":
            return sweep.tiers(self.tiering)
        return sweep.split(self.splitting, self.routed.counts())

    def _fleet(self) -> TableFleet | None:
        """Today's fleet, where a clock is asked for."""
        if not self.caching.use_timestamps and self.routed == Routed() and self.clocking == Clocking():
            return None
        from kvtool.profiler.what_if.table_clock import TableFleet

        counts = self.routed.counts() or [1]
        if len(counts) > 1:
            raise KvtoolError("--replicas is one for the table", hint="--sweep replicas tries several")
        return TableFleet(
            replicas=counts[0],
            routing=self.routed.names() or None,
            view=self.routed.router_view,
            slo=self.clocking.objectives(),
            speedup=self.clocking.speedup,
        )

    def _opened(self) -> Opened:
        """Return the inputs, as their own server serves them."""
        from kvtool.config.asked_run import RunOptions
        from kvtool.config.loading import read_config
        from kvtool.profiler.opening import open_workload
        from kvtool.text.tokens.tokenizer import Tokenizers

        options = RunOptions(
            inputs=self.inputs,
            predicting=self.predicting,
            rendering=self.rendering,
            serving=self.serving,
            tracing=self.tracing,
            reading=self.reading,
            rule_flags=self.rule_flags,
        ).over(read_config(self.configured, allow_outside=self.reading.allow_outside))
        options.check()
        return open_workload(options, Tokenizers(offline=self.showing.offline))

    def _edits_of(self, opened: Opened) -> EditsOf:
        """Return what makes the command that edits prompts, with the options that decide what they hit."""
        import shlex

        from kvtool.cli.edit_command import edit_command
        from kvtool.fixes.fix import SAFE_TIERS

        blocks = opened.planned.plan.engine.num_blocks

        def command(fixes: Sequence[Fix]) -> str:
            allowed = ",".join(sorted({fix.tier for fix in fixes}.difference(SAFE_TIERS)))
            words = edit_command(self, self.inputs, None if blocks is None else blocks - 1)
            return shlex.join(["kvtool", *words, *flags(allow=allowed or None)])

        return command

    def _command(self, flags: Flags | tuple[str, ...]) -> str:
        """Return the command that was given, with these options."""
        import shlex

        from kvtool.config.command_line import CommandLine

        given = CommandLine(self.showing.command_line or ("what-if", *self.inputs))
        line = given.without_output()
        return shlex.join(["kvtool", *(line.with_flags(flags) if isinstance(flags, tuple) else line.with_(**flags))])
