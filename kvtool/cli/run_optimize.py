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
from kvtool.profiler.optimize.breakpoint_plan import MOST
from kvtool.profiler.optimize.log_order import check_log, write_in_order
from kvtool.profiler.optimize.outcome import OptimizeOutcome, optimized
from kvtool.profiler.optimize.write_edits import check_undo, free_undo, write_edits
from kvtool.report.terminal.next_command import with_flag
from kvtool.report.terminal.optimize import print_optimize
from kvtool.results.documents.optimize import OptimizeDocument
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
        outcome = _found(opened, arguments, tiers)
    except (TrialInterruptedError, KeyboardInterrupt):
        print("kvtool: interrupted; no file was changed", file=sys.stderr)
        return 130
    undo = None
    if arguments.write and outcome.files:
        undo = arguments.undo or free_undo(arguments.run.inputs[0])
        write_edits(outcome.files, undo)
    output = arguments.output if outcome.order is not None else None
    if output is not None and outcome.order is not None:
        write_in_order(arguments.run.inputs[0], outcome.order.order, output)
    elif arguments.output is not None:
        limited = opened.setup.plan.engine.num_blocks is not None
        why = "no other order of the requests wins hits" if limited else "a cache without --capacity forgets nothing"
        print(f"kvtool: {why}; {arguments.output} was not written", file=sys.stderr)
    with printing():
        _print(outcome.written(undo=undo, output=output), arguments)
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


def _found(opened: Opened, arguments: OptimizeArguments, tiers: Sequence[Tier]) -> OptimizeOutcome:
    with Progress(make_console(stderr=True, color=arguments.run.color), quiet=arguments.run.quiet) as progress:
        return optimized(opened, tiers, progress, breakpoints=arguments.breakpoints)


def _print(outcome: OptimizeOutcome, arguments: OptimizeArguments) -> None:
    if arguments.run.json:
        sys.stdout.write(outcome.document.to_json())
        return
    console = make_console(color=arguments.run.color, width=arguments.run.width, plain=arguments.run.plain)
    print_optimize(console, outcome, show_diff=arguments.diff, next_command=_next(outcome.document, arguments))


def _next(document: OptimizeDocument, arguments: OptimizeArguments) -> Sequence[str]:
    """Write it; or allow what needs consent; or look at all figures of what was written."""
    command = list(arguments.run.command_line or ("optimize", *arguments.run.inputs))
    if document.undo is not None:
        return ["profile", *arguments.run.inputs]
    if document.files:
        return with_flag(command, "--write", None)
    if document.request_order is not None and document.output is None and len(arguments.run.inputs) == 1:
        root, suffix = os.path.splitext(arguments.run.inputs[0])  # noqa: PTH122 - a name from the command line
        return [*command, "-o", f"{root}.ordered{suffix}"] if suffix in (".jsonl", ".ndjson") else []
    if document.needs_consent:
        needed = {step.tier for step in document.needs_consent} | set(document.tiers) - set(SAFE_TIERS)
        return with_flag(command, "--allow", ",".join(sorted(needed)))
    return []
