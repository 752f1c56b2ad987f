"""The command `kvtool optimize`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, only
from kvtool.config.run_options import Caching, Reading, Rendering, Serving
from kvtool.config.shown_options import Configured, Showing
from kvtool.errors import KvtoolError
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.fixes.fix import Tier
    from kvtool.profiler.opening import Opened
    from kvtool.profiler.optimize.breakpoint_plan import BreakpointPlan
    from kvtool.profiler.passes import PassResult
    from kvtool.report.terminal.optimize import OptimizeReport

SAFE_TIERS: tuple[Tier, ...] = ("P0", "P1")
"""Neither moves nor changes what a prompt says."""


@dataclass(frozen=True, kw_only=True)
class OptimizeCommand(Command):
    """Rewrite prompts so that they share more, prove it by running them again, and write only where told.

    Every fix carries a proof tier: P0 leaves the token ids alone, P1 changes the form and not the content, P2 moves text, P3
    changes it. P0 and P1 are tried by default; the others need consent.
    """

    inputs: Annotated[tuple[str, ...], Argument("workload.yaml; or logs, which are told of, not edited.", "INPUT")]
    allow: Annotated[str | None, Option("Also P2 (text moved) and P3 (text changed), such as P2,P3.", "TIERS")] = None
    unsafe_fixes: Annotated[bool, Option("The same as --allow P2,P3.")] = False
    write: Annotated[bool, Option("Write the edited files, and a patch that undoes it.")] = False
    diff: Annotated[bool, Option("Show the edits.", flag="--diff/--no-diff")] = True
    undo: Annotated[str | None, Option("The patch. [default: INPUT.undo.patch]", "FILE")] = None
    output: Annotated[
        str | None, Option("The log (JSON lines) in the order that wins with --capacity.", "FILE", short="-o")
    ] = None
    breakpoints: Annotated[int | None, Option("Compute where to set 1 to 4 cache_control breakpoints.", "N")] = None
    rendering: Rendering
    serving: Annotated[Serving, only("block_size", "capacity")]
    caching: Annotated[Caching, only("concurrency")]
    reading: Reading
    configured: Configured
    showing: Showing

    def run(self) -> int:
        """Find, edit, prove, print, and write where told; 0, or 130 where it was interrupted and nothing was written."""
        check_piped("optimize", self.inputs)
        from kvtool.config.asked_run import RunOptions
        from kvtool.profiler.advice.trials import TrialInterruptedError
        from kvtool.profiler.opening import open_workload
        from kvtool.profiler.optimize.log_order import write_in_order
        from kvtool.profiler.optimize.write_edits import free_undo, write_edits
        from kvtool.text.terminal.streams import printing
        from kvtool.text.tokens.tokenizer import Tokenizers
        from kvtool.workload.yaml.yaml_source import YamlSource

        options = RunOptions(
            inputs=self.inputs,
            rendering=self.rendering,
            serving=self.serving,
            caching=self.caching,
            reading=self.reading,
        ).over(self.configured.read())
        options.check()
        tiers = parse_tiers(self.allow, unsafe=self.unsafe_fixes)
        self._check_outputs()
        opened = open_workload(options, Tokenizers(offline=self.showing.offline))
        if not isinstance(opened.source, YamlSource) and self.write:
            raise KvtoolError(
                "--write edits a workload file and its prompts; logs are records of what was sent",
                hint="change what writes them, or put the prompts into a workload file; -o writes a log in another order",
            )
        if isinstance(opened.source, YamlSource) and self.output is not None:
            raise KvtoolError("-o writes a log in another order", hint="--write edits the files of a workload")
        try:
            report = self._report(opened, tiers)
        except (TrialInterruptedError, KeyboardInterrupt):
            print("kvtool: interrupted; no file was changed", file=sys.stderr)
            return 130
        if self.write and report.optimized.files:
            report.undo_path = self.undo or free_undo(self.inputs[0])
            write_edits(report.optimized.files, report.undo_path)
        if self.output is not None and report.order is not None:
            write_in_order(self.inputs[0], report.order.order, self.output)
            report.output = self.output
        elif self.output is not None:
            limited = opened.setup.plan.engine.num_blocks is not None
            why = (
                "no other order of the requests wins hits" if limited else "a cache without --capacity forgets nothing"
            )
            print(f"kvtool: {why}; {self.output} was not written", file=sys.stderr)
        with printing():
            self._print(report)
        return 0

    def _check_outputs(self) -> None:
        """What can be known before anything is run."""
        from kvtool.profiler.optimize.breakpoint_plan import MOST
        from kvtool.profiler.optimize.log_order import check_log
        from kvtool.profiler.optimize.write_edits import check_undo

        if self.undo is not None:
            if not self.write:
                raise KvtoolError("--undo names the patch of what --write writes", hint="add --write")
            check_undo(self.undo, self.inputs)
        if self.output is not None:
            check_log(self.inputs, self.output)
        if self.breakpoints is not None and not 1 <= self.breakpoints <= MOST:
            raise KvtoolError(f"--breakpoints is a number from 1 to {MOST}, not {self.breakpoints}")

    def _report(self, opened: Opened, tiers: Sequence[Tier]) -> OptimizeReport:
        from kvtool.profiler.optimize.log_order import request_order
        from kvtool.profiler.optimize.optimizer import needing_consent, optimize
        from kvtool.report.terminal.optimize import OptimizeReport

        with self.showing.progress() as progress:
            optimized = optimize(opened, tiers, progress)
            forbidden = needing_consent(opened, tiers, progress, optimized)
            order = request_order(opened, progress, optimized.before)
            plans = None
            if self.breakpoints is not None:
                plans = _breakpoints(opened, optimized.after, self.breakpoints)
        size = opened.setup.plan.engine.block_size
        return OptimizeReport(
            opened.name, tuple(tiers), size, optimized, tuple(forbidden), order=order, breakpoints=plans
        )

    def _print(self, report: OptimizeReport) -> None:
        from kvtool.report.terminal.optimize import dump, print_optimize

        if self.showing.json:
            sys.stdout.write(dump(report))
            return
        print_optimize(self.showing.console(), report, show_diff=self.diff, next_command=self._next(report))

    def _next(self, report: OptimizeReport) -> Sequence[str]:
        """Write it; or allow what needs consent; or look at all figures of what was written."""
        from kvtool.report.terminal.next_command import with_flag

        command = list(self.showing.command_line or ("optimize", *self.inputs))
        if report.undo_path is not None:
            return ["profile", *self.inputs]
        if report.optimized.files:
            return with_flag(command, "--write", None)
        if report.order is not None and report.output is None and len(self.inputs) == 1:
            root, suffix = os.path.splitext(self.inputs[0])  # noqa: PTH122 - a name from the command line
            return [*command, "-o", f"{root}.ordered{suffix}"] if suffix in (".jsonl", ".ndjson") else []
        if report.forbidden:
            needed = {step.fix.tier for step in report.forbidden} | set(report.tiers) - set(SAFE_TIERS)
            return with_flag(command, "--allow", ",".join(sorted(needed)))
        return []


def parse_tiers(allow: str | None, *, unsafe: bool) -> tuple[Tier, ...]:
    """The tiers of `--allow P2,P3` beside the safe ones; all of them with `--unsafe-fixes`."""
    from kvtool.profiler.advice.advisor import ALL_TIERS

    named = [part.strip().upper() for part in (allow or "").split(",") if part.strip()]
    for name in named:
        if name not in ALL_TIERS:
            raise KvtoolError(f"unknown proof tier `{name}`", hint="--allow takes P0, P1, P2, P3, separated by commas")
    return tuple(tier for tier in sorted(ALL_TIERS) if unsafe or tier in named or tier in SAFE_TIERS)


def _breakpoints(opened: Opened, result: PassResult, most: int) -> list[BreakpointPlan]:
    from kvtool.profiler.optimize.breakpoint_plan import plan_breakpoints

    known: dict[str, int] = {}

    def count(text: str) -> int:
        if text not in known:
            known[text] = len(opened.renderer.tokenizer.encode_ids(text))
        return known[text]

    groups = [group.name for group in result.ledger.totals()]
    plans = [plan_breakpoints(name, result.samples.of_group(name), count, most) for name in groups]
    return [plan for plan in plans if plan is not None]
