"""The command `kvtool optimize`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, only
from kvtool.config.options.edit_options import Editing
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import Caching, Reading, Rendering, Serving, Tracing
from kvtool.config.options.shown_options import Configured, Quoting, Showing
from kvtool.errors import KvtoolError
from kvtool.text.comma_list import comma_list
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.config.command_line import CommandLine
    from kvtool.fixes.fix import Tier
    from kvtool.profiler.opening import Opened
    from kvtool.profiler.optimize.outcome import OptimizeOutcome
    from kvtool.results.documents.optimize import OptimizeDocument

_OTHER = re.compile(r"[^\w.-]+", re.ASCII)
"""What a group's name may have and the name of a file should not."""
_LONGEST = 60


@dataclass(frozen=True, kw_only=True)
class OptimizeCommand(Command):
    """Edit prompts so that they share longer prefixes, and verify each edit by running the requests again.

    Each fix has a proof tier. P0 changes no prompt, P1 changes only the form, P2 moves text, P3 changes text. P2 and P3 need
    --allow, and files change with --write only.
    """

    inputs: Annotated[
        tuple[str, ...],
        Argument(
            "workload.yaml; or logs, which are never edited; else the only workload of kvtool.toml",
            "INPUT",
            configured=True,
        ),
    ] = ()
    editing: Editing
    rendering: Rendering
    serving: Annotated[Serving, only("block_size", "capacity")]
    caching: Caching
    tracing: Annotated[Tracing, only("rules")]
    rule_flags: RuleFlags
    reading: Reading
    quoting: Quoting
    configured: Configured
    showing: Showing

    def run(self) -> int:
        """Find, edit, prove, print, and write where told; 0, or 130 where it was interrupted and nothing was written."""
        from kvtool.config.loading import read_config

        check_piped("optimize", self.inputs)
        from kvtool.config.asked_run import RunOptions
        from kvtool.lint.lint_inputs import refuse_templates
        from kvtool.profiler.advice.trials import TrialInterruptedError
        from kvtool.profiler.opening import open_workload
        from kvtool.profiler.optimize.log_order import write_in_order
        from kvtool.profiler.optimize.optimized_log import write_log
        from kvtool.profiler.optimize.write_edits import free_undo, write_edits
        from kvtool.text.terminal.streams import printing
        from kvtool.text.tokens.tokenizer import Tokenizers
        from kvtool.workload.yaml.yaml_source import YamlSource

        refuse_templates(self.inputs)
        options = RunOptions(
            inputs=self.inputs,
            rendering=self.rendering,
            serving=self.serving,
            caching=self.caching,
            tracing=self.tracing,
            rule_flags=self.rule_flags,
            reading=self.reading,
        ).over(read_config(self.configured, allow_outside=self.reading.allow_outside))
        options.check()
        tiers = parse_tiers(self.editing.allow, unsafe=self.editing.unsafe_fixes)
        self._check_outputs()
        opened = open_workload(options, Tokenizers(offline=self.showing.offline), keep_going=True)
        if not isinstance(opened.source, YamlSource) and self.editing.write:
            raise KvtoolError(
                "--write edits a workload file and its prompts; logs are records of sent requests",
                hint="change what writes them as -o shows it, or put the prompts into a workload file",
            )
        if isinstance(opened.source, YamlSource) and self.editing.output is not None:
            raise KvtoolError("-o writes a log with the fixes made", hint="--write edits the files of a workload")
        opened.require_prompts()
        try:
            outcome = self._found(opened, tiers)
        except (TrialInterruptedError, KeyboardInterrupt):
            print("kvtool: interrupted; no file was changed", file=sys.stderr)
            return 130
        undo = output = None
        replaces = self.editing.output is not None and Path(self.editing.output).is_file()
        if self.editing.write and outcome.files:
            undo = self.editing.undo or free_undo(self.inputs[0])
            write_edits(outcome.files, undo)
        edited = outcome.document.edited_log
        if self.editing.output is not None and outcome.log is not None and edited is not None and edited.allowed:
            output = self.editing.output
            write_log(self.inputs[0], outcome.log, output)
        elif self.editing.output is not None and outcome.order is not None:
            output = self.editing.output
            write_in_order(self.inputs[0], outcome.order.order, output, self.reading)
        elif self.editing.output is not None:
            order = opened.planned.plan.engine.num_blocks is not None
            why = (
                "no edit or other order of the requests raises the hit rate" if order else "no edit raises the hit rate"
            )
            why = why if outcome.document.tried else "no edit was tried"
            why = why if edited is None else "the edits need your consent (--allow)"
            print(f"kvtool: {why}, so {self.editing.output} was not written", file=sys.stderr)
        with printing():
            self._print(outcome.written(undo=undo, output=output, replaced=output is not None and replaces))
        opened.check_read()
        return 0

    def _check_outputs(self) -> None:
        """Check the outputs before anything is run."""
        from kvtool.profiler.optimize.breakpoint_plan import MOST
        from kvtool.profiler.optimize.log_order import check_log
        from kvtool.profiler.optimize.write_edits import check_undo

        if self.editing.undo is not None:
            if not self.editing.write:
                raise KvtoolError("--undo names the patch for --write", hint="add --write")
            check_undo(self.editing.undo, self.inputs)
        if self.editing.output is not None:
            check_log(self.inputs, self.editing.output)
        if self.editing.breakpoints is not None and not 1 <= self.editing.breakpoints <= MOST:
            raise KvtoolError(f"--breakpoints is a number from 1 to {MOST}, not {self.editing.breakpoints}")

    def _found(self, opened: Opened, tiers: Sequence[Tier]) -> OptimizeOutcome:
        from kvtool.profiler.optimize.outcome import optimized

        with self.showing.progress() as progress:
            return optimized(opened, tiers, progress, breakpoints=self.editing.breakpoints)

    def _print(self, outcome: OptimizeOutcome) -> None:
        from kvtool.report.terminal.optimize import print_optimize

        if self.showing.json:
            sys.stdout.write(outcome.document.to_json())
            return
        next_command = self._next(outcome.document)
        print_optimize(
            self.showing.console(),
            outcome,
            show_diff=self.editing.diff,
            next_command=next_command,
            show_text=self.quoting.printed,
        )

    def _next(self, document: OptimizeDocument) -> Sequence[str]:
        """Write it; or allow what needs consent; or look at all figures of what was written."""
        from kvtool.config.command_line import CommandLine
        from kvtool.fixes.fix import SAFE_TIERS

        command = CommandLine(self.showing.command_line or ("optimize", *self.inputs))
        if document.undo is not None:
            return command.to("profile")
        if document.files:
            return command.without_output().with_(write=True)
        edited = document.edited_log
        if edited is not None and edited.allowed:
            if document.output is not None:
                return ["profile", document.output]
            return self._writing(command, "optimized", (".jsonl", ".ndjson", ".json"))
        if document.request_order is not None and document.output is None:
            return self._writing(command, "ordered", (".jsonl", ".ndjson"))
        if document.needs_consent:
            first = min(step.tier for step in document.needs_consent)  # content changes (P3) only where no move wins
            needed = {first} | set(document.tiers) - set(SAFE_TIERS)
            written = [] if self.editing.output is None else ["-o", self.editing.output]
            return [*command.without_output().with_(allow=",".join(sorted(needed))), *written]
        return []

    def _writing(self, command: CommandLine, how: str, suffixes: Sequence[str]) -> Sequence[str]:
        """Return the command that writes a single log to a file of its own, named after its groups; nothing for other inputs."""
        from kvtool.text.files.compressed import uncompressed

        path = uncompressed(self.inputs[0])
        root, suffix = os.path.splitext(path)  # noqa: PTH122 - a name from the command line
        if len(self.inputs) != 1 or suffix not in suffixes:
            return []
        groups = "+".join(_OTHER.sub("-", name).strip("-.") for name in self.reading.groups)[:_LONGEST]
        return [
            *command.without_output(),
            "-o",
            ".".join(part for part in (root, groups, how) if part) + suffix + self.inputs[0][len(path) :],
        ]


def parse_tiers(allow: Sequence[str], *, unsafe: bool) -> tuple[Tier, ...]:
    """Return the tiers of `--allow P2,P3` beside the safe ones; all of them with `--unsafe-fixes`."""
    from kvtool.fixes.fix import ALL_TIERS, SAFE_TIERS

    named = comma_list(",".join(allow).upper())
    for name in named:
        if name not in ALL_TIERS:
            raise KvtoolError(f"unknown proof tier `{name}`", hint="--allow takes P0, P1, P2, P3, separated by commas")
    return tuple(tier for tier in sorted(ALL_TIERS) if unsafe or tier in named or tier in SAFE_TIERS)
