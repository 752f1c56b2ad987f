"""The plan of a check: the command line over the configuration file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvtool.config.asked_run import RunOptions
from kvtool.config.command_line import CommandLine
from kvtool.config.file_model import CheckOptions, WorkloadGate
from kvtool.config.loading import ConfigFile
from kvtool.config.option import check_values
from kvtool.config.options.clock_options import parse_objectives
from kvtool.config.options.judged_options import BASELINE_FILE, DEFAULT_DROP, Judging
from kvtool.engine.fleet.fleet_figures import Slo
from kvtool.errors import KvtoolError, Place
from kvtool.gate.demand import Demand, Locate
from kvtool.gate.facts import FleetFacts
from kvtool.gate.flag_values import parsed_flag
from kvtool.gate.opened import ALONE, in_order
from kvtool.gate.probed_agents import AgentToCheck, agents_of
from kvtool.profiler.opening import Opened
from kvtool.results.show_text import ShowText
from kvtool.results.verdict import Kind
from kvtool.text.quantities import parse_cost, parse_limit, parse_threshold
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.files.input_files import matched


@dataclass(frozen=True, slots=True)
class _Limit:
    kind: Kind
    limit: float
    flag: str
    """Empty for a limit of the configuration file."""
    place: Place | None


@dataclass(frozen=True, slots=True)
class ClockDemands:
    """Limits, and the objectives that they need, as text and as numbers."""

    limits: tuple[_Limit, ...]
    said: str
    slo: Slo

    def demands(self, path: str) -> Iterator[Demand]:
        """Yield the demands on a workload, whose first file is `path`."""
        for each in self.limits:
            yield Demand(each.kind, float(each.limit), "error", None, each.place or Place(path), flag=each.flag)

    def fleet_of(self, opened: Opened, progress: Progress) -> FleetFacts:
        """Return the figures of today's settings. Raises KvtoolError for requests without times, or models without a clock."""
        from kvtool.profiler.what_if.table_clock import today_on_clock

        found = today_on_clock(opened, self.slo, progress)
        return FleetFacts(found.gpus, found.goodput, self.said)


def clock_demands(judging: Judging, options: CheckOptions, file: ConfigFile | None) -> ClockDemands | None:
    """Return the demands of flags over those of the file; None without any. Raises KvtoolError for a limit without objective."""
    check_values(judging)
    asked: tuple[tuple[Kind, str, float | None, float | None], ...] = (
        ("gpus", "max_gpus", judging.max_gpus, options.max_gpus),
        ("goodput", "min_goodput", judging.min_goodput, options.min_goodput),
    )
    limits: list[_Limit] = []
    for kind, key, flag, kept in asked:
        if flag is not None:
            limits.append(_Limit(kind, flag, f"--{key.replace('_', '-')}", None))
        elif kept is not None and file is not None:
            limits.append(_Limit(kind, kept, "", file.place("check", key)))
    if not limits:
        return None
    said = judging.slo or options.slo
    if said is None:
        first = limits[0]
        raise KvtoolError(
            f"{first.flag or first.place} needs an objective",
            hint="set --slo ttft=2s,tpot=50ms, or slo in the table [check]",
        )
    return ClockDemands(tuple(limits), said, parse_objectives("--slo", said))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """Inputs of a check: files, demands, and the baseline that it compares with or writes.

    `run` says how each workload is run. `gate` is what the configuration file demands, `locate` finds a key of it in the file.
    `baseline` None compares with nothing; `baseline_named` says that somebody asked for it, so that it is missed where it is not
    there. `all_inputs`: the inputs are all that the demands are about, so that a group that none of them has is a mistake.
    `configured`: they are what the configuration file names, so that the baseline is to have no others.
    """

    inputs: Sequence[str]
    run: RunOptions
    gate: WorkloadGate
    locate: Locate
    min_hit_rate: float | None = None
    max_cost_per_1k: float | None = None
    error_on: Sequence[str] = ()
    error_on_places: Sequence[Place] = ()
    """Places of `error_on` in the file; none where the flag says it."""
    clock: ClockDemands | None = None
    baseline: str | None = None
    baseline_named: bool = False
    max_drop: float
    require_baseline: bool
    update_baseline: bool = False
    all_inputs: bool = False
    configured: bool = False
    advice: bool
    agents: Sequence[AgentToCheck] = ()
    agents_left_out: int = 0
    """Agents of the configuration that nobody asked to run."""
    offline: bool = False
    views: bool = False
    command: CommandLine = field(default_factory=lambda: CommandLine(("check",)))
    """What was asked for, for the commands that notices give."""
    show_text: ShowText = "none"
    """Text of prompts that the result may quote."""

    @property
    def names_all(self) -> bool:
        """Return whether all groups that there are take part."""
        return self.all_inputs and not self.run.reading.groups

    @property
    def runs_all(self) -> bool:
        """Return whether all workloads take part that the baseline is to have."""
        return self.configured and not self.run.reading.groups


def check_plan(
    judging: Judging, run: RunOptions, file: ConfigFile | None, *, offline: bool, run_agents: bool = False
) -> CheckPlan:
    """Return the plan of the command line over the configuration file. Raises KvtoolError without anything to check.

    Only `run_agents`, which no file can say, makes the agents of the configuration run.
    """
    run = run.over(file)
    options = CheckOptions() if file is None else file.config.check
    inputs = matched(run.inputs, ALONE) or ([] if file is None else file.workloads)
    agents = [] if run.inputs else agents_of(file)
    if agents and not run_agents and not inputs:
        raise KvtoolError(
            f"{file.path if file else ''} names only agents to run",
            hint="kvtool check --run-agents executes their commands",
        )
    if not inputs and not agents:
        missing = "there is no INPUT, and no configuration file with `workloads`"
        if file is not None:
            missing = f"there is no INPUT, and {file.path} has no `workloads`"
        raise KvtoolError(missing, hint="create a configuration for the prompts in this folder with kvtool init")
    named = judging.baseline or (None if file is None else file.baseline)
    require = judging.require_baseline
    if require is None:
        require = options.require_baseline
    max_drop = parsed_flag(parse_limit, judging.max_drop, "--max-drop")
    if max_drop is None:
        max_drop = options.max_drop
    asked = named is not None or max_drop is not None  # who says how far rates may fall expects that they are compared
    return CheckPlan(
        inputs=in_order(inputs),
        run=replace(run, inputs=()),
        gate=WorkloadGate() if file is None else file.config.gate,
        locate=lambda keys: Place("") if file is None else file.place("gate", *keys),
        min_hit_rate=parsed_flag(parse_threshold, judging.min_hit_rate, "--min-hit-rate"),
        max_cost_per_1k=parsed_flag(parse_cost, judging.max_cost_per_1k, "--max-cost-per-1k"),
        error_on=judging.error_on or options.error_on,
        error_on_places=[]
        if judging.error_on or file is None
        else [file.place("check", "error_on", number) for number in range(len(options.error_on))],
        clock=clock_demands(judging, options, file),
        baseline=_baseline(named, file, wanted=asked or require or judging.update_baseline),
        baseline_named=asked,
        max_drop=DEFAULT_DROP if max_drop is None else max_drop,
        require_baseline=require,
        update_baseline=judging.update_baseline,
        all_inputs=not run.inputs or file is None or not file.config.workloads,
        configured=not run.inputs,
        agents=agents if run_agents else [],
        agents_left_out=0 if run_agents else len(agents),
        offline=offline,
        advice=options.advice if judging.advice is None else judging.advice,
    )


def _baseline(named: str | None, file: ConfigFile | None, *, wanted: bool) -> str | None:
    """Return the baseline's path: the named one, else the usual one beside the configuration if it exists or is wanted."""
    if named is not None:
        return named
    if file is None:
        usual = BASELINE_FILE
    else:
        usual = file.inside(os.path.normpath(Path(file.path).parent / BASELINE_FILE), Place(file.path))
    return usual if wanted or os.path.lexists(usual) else None
