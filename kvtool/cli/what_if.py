"""The command `kvtool what-if`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.clock_options import Clocking
from kvtool.config.option import Argument, Option, check_values, only, walk
from kvtool.config.routing_options import Routed
from kvtool.config.rule_flags import RuleFlags
from kvtool.config.run_options import Caching, Predicting, Reading, Rendering, Serving, Tracing
from kvtool.config.shown_options import Configured, Showing
from kvtool.config.spread_options import Spreading
from kvtool.config.tier_options import Splitting, Tiering
from kvtool.errors import KvtoolError
from kvtool.results.choices import Axis, Policy
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.profiler.opening import Opened
    from kvtool.profiler.what_if.planned_change import Flags
    from kvtool.profiler.what_if.routing_rows import RoutingSweep
    from kvtool.profiler.what_if.sweeps import AskedSweep
    from kvtool.profiler.what_if.table_clock import TableFleet
    from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
    from kvtool.workload.block_trace import BlockTrace
    from kvtool.workload.tasks.asked_tasks import AskedTasks

_MOST = 10**12


@dataclass(frozen=True, kw_only=True)
class WhatIfCommand(Command):
    """What to change first: the same requests with another cache, other blocks, more accelerators, or other prompts, in one table.

    Each row is counted on the requests themselves, and names the command that gives it again. --sweep changes one thing alone.
    """

    inputs: Annotated[tuple[str, ...], Argument("Logs, traces, workload.yaml, folders or patterns; or -.", "INPUT")]
    sweep: Annotated[Axis | None, Option("Change this alone, as a curve.")] = None
    capacities: Annotated[str | None, Option("Blocks to try. [default: spread over what there is]", "N,...")] = None
    policies: Annotated[
        str | None,
        Option(
            "lru, fifo, lfu, sieve, s3fifo, arc; of sglang lru, lfu, slru, priority; and opt, the bound. [default: all]",
            "NAME,...",
        ),
    ] = None
    ttls: Annotated[str | None, Option("Times to live to try: 30s,5m,1h.", "TIME,...")] = None
    block_sizes: Annotated[str | None, Option("Multiples of the block to try.", "N,...")] = None
    sample: Annotated[
        float, Option("Part of the blocks that the capacity curve is counted with.", "X", check=bounds.fraction)
    ] = 1.0
    advice: Annotated[bool, Option("Try fixes of the prompts for the table.", flag="--advice/--no-advice")] = True
    fixed: Annotated[
        str | None,
        Option("The table with these fixes of the prompts made, by the names that it gives them; or all.", "NAME,..."),
    ] = None
    routed: Routed
    tiering: Tiering
    splitting: Splitting
    clocking: Clocking
    caching: Annotated[Caching, only("use_timestamps")]
    predicting: Predicting
    rendering: Rendering
    serving: Serving
    tracing: Annotated[Tracing, only("rules", "trace_block_size")]
    rule_flags: Annotated[RuleFlags, only("page_size", "radix_eviction_policy", "protected_threshold")]
    reading: Annotated[
        Reading,
        only("on_bad_line", "log_format", "log_map", "tenant", "requests", "groups", "seed", "allow_outside", "jobs"),
    ]
    spreading: Spreading
    outputs: Annotated[
        tuple[str, ...],
        Option(
            "Also write PATH, in the format of its extension (json, md, html, csv, txt, svg) or FMT; repeatable.",
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
        from kvtool.report.outputs import check_outputs
        from kvtool.report.what_if_formats import FORMATTERS, write_what_if
        from kvtool.text.terminal.console import DEFAULT_WIDTH
        from kvtool.text.terminal.streams import printing

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
                from kvtool.report.terminal.what_if import print_what_if

                print_what_if(self.showing.console(), document)
        return 0

    def _document(self) -> WhatIfDocument:
        from kvtool.profiler.what_if.change_table import AskedTable, WhatIfTable
        from kvtool.profiler.what_if.planning_pass import block_trace
        from kvtool.profiler.what_if.sweep_tasks import swept
        from kvtool.profiler.what_if.sweeps import sweep_document

        tasks = self.spreading.tasks(self.reading.jobs)
        axis = self._axis
        self._check_together(axis)
        opened = self._opened()
        rules = opened.planned.plan.rules
        asked = None if axis is None else self._asked(axis, whole=rules == "block-lru")
        if rules not in ("vllm", "block-lru"):
            return self._by_engine(opened, asked, tasks)
        with self.showing.progress() as progress:
            if asked is None:
                fixed = tuple(_listed(self.fixed))
                table = AskedTable(self._command, fixed=fixed, advice=self.advice, fleet=self._fleet())
                return WhatIfTable(opened, table, progress).document()
            trace, notes = block_trace(opened, progress)
            if axis == "policy" and rules == "vllm" and tuple(asked.policies) != ("opt",):
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

    def _by_engine(self, opened: Opened, asked: AskedSweep | None, tasks: AskedTasks) -> WhatIfDocument:
        """By another engine's own cache, where its users can choose who leaves it."""
        rules = opened.planned.plan.rules
        if rules != "sglang":
            from kvtool.engine.rules.rule_sets import find_rule_set

            found = find_rule_set(rules)
            raise KvtoolError(
                f"what-if follows vllm, sglang or block-lru, not {rules}: by {found.engine} the first to go is {found.eviction}",
                hint="kvtool compare-engines puts all of them into one table",
            )
        if asked is None:
            raise KvtoolError(
                "the table follows vllm or block-lru, not sglang", hint="--sweep policy, or --sweep capacity"
            )
        from kvtool.profiler.what_if.radix_sweeps import RadixSweep

        sweep = RadixSweep(opened, asked, self._command)
        with self.showing.progress() as progress:
            return sweep.document(tasks, progress)

    def _routing(self, axis: Axis, opened: Opened, trace: BlockTrace) -> RoutingSweep:
        """The sweep over routers or replicas."""
        from kvtool.profiler.what_if.fleet_rows import FleetPlan
        from kvtool.profiler.what_if.routing_rows import AskedFleet, RoutingSweep

        plan = opened.planned.plan
        if plan.rules != "vllm":
            raise KvtoolError("replicas follow vLLM's rules, not those of trace studies", hint="leave --rules out")
        asked = AskedFleet.of(axis, self.routed.routing, self.routed.counts(), self.routed.router_view)
        slo, speedup = self.clocking.objectives(), self.clocking.speedup
        return RoutingSweep(FleetPlan.of(trace, opened.planned, slo=slo, speedup=speedup), asked, seed=plan.seed)

    def _fleet_rows(
        self, axis: Literal["tier", "pd"], opened: Opened, trace: BlockTrace, notes: list[str]
    ) -> list[SweepRow]:
        """Rows of what a fleet is built of; `notes` get what there is to say of them."""
        from kvtool.profiler.what_if.fleet_sweeps import FleetSweep, one_of

        if opened.planned.plan.rules != "vllm":
            raise KvtoolError(f"--sweep {axis} follows vllm's rules", hint="leave --rules out")
        sweep = FleetSweep(
            opened,
            trace,
            notes,
            slo=self.clocking.objectives(),
            speedup=self.clocking.speedup,
            replicas=one_of("--replicas", self.routed.counts()) if axis == "tier" else None,
            routing=one_of("--routing", _listed(self.routed.routing)),
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
            routing=_listed(self.routed.routing) or None,
            view=self.routed.router_view,
            slo=self.clocking.objectives(),
            speedup=self.clocking.speedup,
        )

    @property
    def _axis(self) -> Axis | None:
        """What is swept, which capacities or a sample say by themselves; None: the table."""
        return self.sweep or ("capacity" if self.capacities is not None or self.sample < 1 else None)

    def _opened(self) -> Opened:
        """The inputs as one's own engine would serve them, whoever served them."""
        from dataclasses import replace

        from kvtool.config.asked_run import RunOptions
        from kvtool.config.loading import read_config
        from kvtool.engine.config import EngineConfig
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
        tokenizers = Tokenizers(offline=self.showing.offline)
        opened = open_workload(options, tokenizers)
        rules = opened.planned.plan.cache
        if self._axis is None and rules is not None and rules.dated:
            own = replace(self.serving, block_size=EngineConfig.block_size)
            opened = open_workload(replace(options, serving=own), tokenizers)
        return opened

    def _command(self, flags: Flags) -> str:
        """What was given, with these flags."""
        import shlex

        from kvtool.report.terminal.next_command import changed, without_shown

        given = self.showing.command_line or ("what-if", *self.inputs)
        return shlex.join(["kvtool", *changed(without_shown(given), flags)])

    def _asked(self, axis: Axis, *, whole: bool) -> AskedSweep:
        from kvtool.profiler.what_if.sweeps import AskedSweep
        from kvtool.text.quantities import parse_duration

        policies: list[Policy] = []
        for name in _listed(self.policies):
            found = next((each for each in get_args(Policy) if each == name.replace("-", "")), None)
            if found is None:
                raise KvtoolError(
                    f"--policies: no policy {name[:40]!a} is known", hint=f"one of {', '.join(get_args(Policy))}"
                )
            policies.append(found)
        try:
            ttls = [parse_duration(text) for text in _listed(self.ttls)]
        except ValueError as error:
            raise KvtoolError(f"--ttls: {error}") from error
        return AskedSweep(
            axis,
            whole,
            policies=policies,
            capacities=_numbers("--capacities", self.capacities, 0),
            ttls=ttls,
            block_sizes=_numbers("--block-sizes", self.block_sizes, 1),
            sample=self.sample,
        )

    def _check_together(self, axis: Axis | None) -> None:
        """Which lists belong to which axis."""
        of: dict[str, tuple[Axis | None, ...]] = {
            "policies": ("policy",),
            "ttls": ("ttl",),
            "block_sizes": ("block-size",),
            "capacities": ("capacity", "policy", "block-size"),
        }
        fleets: tuple[Axis, ...] = ("tier", "routing", "replicas", "pd")
        concerns: list[tuple[object, tuple[Axis | None, ...]]] = [
            (self.tiering, ("tier",)),
            (self.splitting, ("pd",)),
            (self.routed, (*fleets, None)),
            (self.clocking, (*fleets, None)),
        ]
        said = [(name, getattr(self, name) is not None, axes) for name, axes in of.items()]
        for concern, axes in concerns:
            said += [(each.name, getattr(concern, each.name) != each.default, axes) for each in walk(type(concern))]
        for name, given, axes in said:
            if given and axis not in axes:
                flag = f"--{name.replace('_', '-')}"
                named = " or ".join(each for each in axes if each is not None)
                raise KvtoolError(
                    f"{flag} is for {'the table and ' if None in axes else ''}--sweep {named}, not {axis or 'the table'}",
                    hint=f"leave {flag} out" if axis is not None else f"--sweep {axes[0]}",
                )
        if self.sample < 1 and axis != "capacity":
            raise KvtoolError("--sample is for --sweep capacity", hint="leave --sample out")
        if self.fixed is not None and axis is not None:
            raise KvtoolError("--fixed is for the table", hint="leave --sweep out")


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [part for each in text.split(",") if (part := each.strip().lower())]


def _numbers(flag: str, text: str | None, least: int) -> list[int]:
    found = []
    for part in _listed(text):
        digits = part.replace("_", "")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 13 and least <= int(digits) <= _MOST):
            raise KvtoolError(f"{flag}: {part[:40]!a} is not a number of at least {least}", hint=f"{flag} 1000,10000")
        found.append(int(digits))
    return found
