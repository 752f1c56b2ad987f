"""The command `kvtool optimize`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.config.arguments import ProfileArguments, check
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Tier
from kvtool.profiler.advice.advisor import ALL_TIERS
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.opening import Opened, open_workload
from kvtool.profiler.optimize.breakpoint_plan import MOST, BreakpointPlan, plan_breakpoints
from kvtool.profiler.optimize.log_order import check_log, request_order, write_in_order
from kvtool.profiler.optimize.optimizer import needing_consent, optimize
from kvtool.profiler.optimize.write_edits import check_undo, free_undo, write_edits
from kvtool.profiler.passes import PassResult
from kvtool.report.terminal.next_command import with_flag
from kvtool.report.terminal.optimize import OptimizeReport, dump, print_optimize
from kvtool.text.terminal.console import make_console
from kvtool.text.terminal.progress import Progress
from kvtool.text.terminal.streams import printing
from kvtool.workload.yaml.yaml_source import YamlSource

SAFE_TIERS: tuple[Tier, ...] = ("P0", "P1")
"""Neither moves nor changes what a prompt says."""


@dataclass(frozen=True, slots=True)
class OptimizeArguments:
    """The command line of `kvtool optimize`: what it runs, and what it may do; None is "not given"."""

    run: ProfileArguments
    allow: str | None = None
    unsafe_fixes: bool = False
    write: bool = False
    diff: bool = True
    undo: str | None = None
    output: str | None = None
    breakpoints: int | None = None


def run_optimize(arguments: OptimizeArguments) -> int:
    """Find, edit, prove, print, and write where told; returns 0, or 130 where it was interrupted and nothing was written."""
    check(arguments.run)
    tiers = parse_tiers(arguments.allow, unsafe=arguments.unsafe_fixes)
    _check_outputs(arguments)
    opened = open_workload(arguments.run)
    if not isinstance(opened.source, YamlSource) and arguments.write:
        raise KvtoolError(
            "--write edits a workload file and its prompts; logs are records of what was sent",
            hint="change what writes them, or put the prompts into a workload file; -o writes a log in another order",
        )
    if isinstance(opened.source, YamlSource) and arguments.output is not None:
        raise KvtoolError("-o writes a log in another order", hint="--write edits the files of a workload")
    try:
        report = _report(opened, arguments, tiers)
    except (TrialInterruptedError, KeyboardInterrupt):
        print("kvtool: interrupted; no file was changed", file=sys.stderr)
        return 130
    if arguments.write and report.optimized.files:
        report.undo_path = arguments.undo or free_undo(arguments.run.inputs[0])
        write_edits(report.optimized.files, report.undo_path)
    if arguments.output is not None and report.order is not None:
        write_in_order(arguments.run.inputs[0], report.order.order, arguments.output)
        report.output = arguments.output
    elif arguments.output is not None:
        limited = opened.setup.plan.engine.num_blocks is not None
        why = "no other order of the requests wins hits" if limited else "a cache without --capacity forgets nothing"
        print(f"kvtool: {why}; {arguments.output} was not written", file=sys.stderr)
    with printing():
        _print(report, arguments)
    return 0


def parse_tiers(allow: str | None, *, unsafe: bool) -> tuple[Tier, ...]:
    """The tiers of `--allow P2,P3` beside the safe ones; all of them with `--unsafe-fixes`."""
    named = [part.strip().upper() for part in (allow or "").split(",") if part.strip()]
    for name in named:
        if name not in ALL_TIERS:
            raise KvtoolError(f"unknown proof tier `{name}`", hint="--allow takes P0, P1, P2, P3, separated by commas")
    return tuple(tier for tier in sorted(ALL_TIERS) if unsafe or tier in named or tier in SAFE_TIERS)


def _check_outputs(arguments: OptimizeArguments) -> None:
    """What can be known before anything is run."""
    if arguments.undo is not None:
        if not arguments.write:
            raise KvtoolError("--undo names the patch of what --write writes", hint="add --write")
        check_undo(arguments.undo, arguments.run.inputs)
    if arguments.output is not None:
        check_log(arguments.run.inputs, arguments.output)
    if arguments.breakpoints is not None and not 1 <= arguments.breakpoints <= MOST:
        raise KvtoolError(f"--breakpoints is a number from 1 to {MOST}, not {arguments.breakpoints}")


def _report(opened: Opened, arguments: OptimizeArguments, tiers: Sequence[Tier]) -> OptimizeReport:
    with Progress(make_console(stderr=True, color=arguments.run.color), quiet=arguments.run.quiet) as progress:
        optimized = optimize(opened, tiers, progress)
        forbidden = needing_consent(opened, tiers, progress, optimized)
        order = request_order(opened, progress, optimized.before)
        plans = None
        if arguments.breakpoints is not None:
            plans = _breakpoints(opened, optimized.after, arguments.breakpoints)
    size = opened.setup.plan.engine.block_size
    return OptimizeReport(opened.name, tuple(tiers), size, optimized, tuple(forbidden), order=order, breakpoints=plans)


def _breakpoints(opened: Opened, result: PassResult, most: int) -> list[BreakpointPlan]:
    known: dict[str, int] = {}

    def count(text: str) -> int:
        if text not in known:
            known[text] = len(opened.renderer.tokenizer.encode_ids(text))
        return known[text]

    groups = [group.name for group in result.ledger.totals()]
    plans = [plan_breakpoints(name, result.samples.of_group(name), count, most) for name in groups]
    return [plan for plan in plans if plan is not None]


def _print(report: OptimizeReport, arguments: OptimizeArguments) -> None:
    if arguments.run.json:
        sys.stdout.write(dump(report))
        return
    console = make_console(color=arguments.run.color, width=arguments.run.width, plain=arguments.run.plain)
    print_optimize(console, report, show_diff=arguments.diff, next_command=_next(report, arguments))


def _next(report: OptimizeReport, arguments: OptimizeArguments) -> Sequence[str]:
    """Write it; or allow what needs consent; or look at all figures of what was written."""
    command = list(arguments.run.command_line or ("optimize", *arguments.run.inputs))
    if report.undo_path is not None:
        return ["profile", *arguments.run.inputs]
    if report.optimized.files:
        return with_flag(command, "--write", None)
    if report.order is not None and report.output is None and len(arguments.run.inputs) == 1:
        root, suffix = os.path.splitext(arguments.run.inputs[0])  # noqa: PTH122 - a name from the command line
        return [*command, "-o", f"{root}.ordered{suffix}"] if suffix in (".jsonl", ".ndjson") else []
    if report.forbidden:
        needed = {step.fix.tier for step in report.forbidden} | set(report.tiers) - set(SAFE_TIERS)
        return with_flag(command, "--allow", ",".join(sorted(needed)))
    return []
