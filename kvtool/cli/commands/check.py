"""The command `kvtool check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, only
from kvtool.config.options.judged_options import Judging
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import Caching, Predicting, Reading, Rendering, Serving, Tracing
from kvtool.config.options.shown_options import Configured, Showing, Writing
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.gate.check_plan import CheckPlan
    from kvtool.gate.checking import UnfinishedCheckError
    from kvtool.gate.tightening import Tightened
    from kvtool.report.outputs import OutputFile
    from kvtool.results.check import CheckResult


@dataclass(frozen=True, kw_only=True)
class CheckCommand(Command):
    """Check hit rates, findings and predicted TTFT against limits and a baseline, for CI.

    Limits are in kvtool.toml ([gate], [gate.groups.NAME]), in workload files (gate:) and in flags. Nothing is measured, so
    every machine gives the same verdict.

    Exit codes: 0 passed; 1 a gate failed; 2 wrong input, or a required baseline cannot be compared.
    """

    inputs: Annotated[
        tuple[str, ...],
        Argument("workload.yaml, logs, prompts, templates or .py files; else `workloads` of kvtool.toml", "INPUT"),
    ] = ()
    run_agents: Annotated[bool, Option("Run the agents in kvtool.toml ([[probe]]): this executes their commands.")] = (
        False
    )
    judging: Judging
    predicting: Annotated[Predicting, only("model", "accelerator")]
    rendering: Rendering
    serving: Serving
    caching: Caching
    tracing: Annotated[Tracing, only("rules")]
    rule_flags: RuleFlags
    reading: Reading
    configured: Configured
    writing: Annotated[Writing, only("outputs", "show_text")]
    showing: Showing

    def run(self) -> int:
        """Check, print and write; the exit code of the verdict."""
        from kvtool.config.loading import read_config

        check_piped("check", self.inputs)
        from kvtool.config.asked_run import RunOptions
        from kvtool.config.command_line import CommandLine
        from kvtool.gate.check_plan import check_plan
        from kvtool.gate.checking import UnfinishedCheckError, run_check
        from kvtool.gate.tightening import can_tighten, check_tighten, tighten
        from kvtool.report.outputs import check_outputs, need_views
        from kvtool.text.terminal.streams import printing

        file = read_config(self.configured, allow_outside=self.reading.allow_outside)
        run = RunOptions(
            inputs=self.inputs,
            predicting=self.predicting,
            rendering=self.rendering,
            serving=self.serving,
            caching=self.caching,
            tracing=self.tracing,
            rule_flags=self.rule_flags,
            reading=self.reading,
        )
        if self.judging.tighten:
            check_tighten(file, self.inputs, self.reading, self.judging.min_hit_rate)
        plan = check_plan(self.judging, run, file, offline=self.showing.offline, run_agents=self.run_agents)
        taken = {} if plan.baseline is None else {plan.baseline: "the baseline"}
        if file is not None:
            taken[file.path] = "the configuration"
        outputs = check_outputs(
            self.writing.outputs,
            plan.inputs,
            json=self.showing.json,
            taken=taken,
            allow_outside=self.reading.allow_outside,
        )
        views = self.showing.json or need_views(outputs)
        command = CommandLine(self.showing.command_line or ("check", *plan.inputs))
        plan = replace(plan, views=views, show_text=self.writing.in_terminal, command=command)
        try:
            with self.showing.progress() as progress:
                result = run_check(plan, progress)
        except UnfinishedCheckError as error:
            if not self.showing.json and not any(output.to_stdout for output in outputs):
                with printing():
                    self._show_findings(error, plan)
            raise
        tightened = None
        if self.judging.tighten and file is not None:
            tightened = tighten(file, result)
            notices = [*result.verdict.notices, *(tightened.told or [f"{file.path}: no gate can be raised"])]
            result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"notices": notices})})
        raises = tightened is None and can_tighten(file, result, self.inputs, self.reading, self.judging.min_hit_rate)
        with printing():
            self._show(result, outputs, plan, tightened, raises=raises)
        return result.verdict.exit_code

    def _show_findings(self, error: UnfinishedCheckError, plan: CheckPlan) -> None:
        """Print the findings of the inputs that could be read; without all inputs there is no verdict."""
        from kvtool.report.terminal.findings import print_findings
        from kvtool.text.terminal.console import ascii_only

        console = self.showing.console()
        print_findings(console, error.findings, plain=ascii_only(console), show_text=plan.show_text)

    def _show(
        self,
        result: CheckResult,
        outputs: Sequence[OutputFile],
        plan: CheckPlan,
        tightened: Tightened | None,
        *,
        raises: bool,
    ) -> None:
        """Write the files, and print the report unless something else goes to standard output."""
        from kvtool.report.outputs import output_root, write_outputs
        from kvtool.report.write_options import WriteOptions
        from kvtool.results.limit_text import limit_text
        from kvtool.text.terminal.console import DEFAULT_WIDTH

        show_text = plan.show_text
        in_files = self.writing.in_files
        command = plan.command.without_output()
        shared = limit_text(result, in_files)
        options = WriteOptions(
            show_text=in_files,
            root=output_root(),
            command=command,
            width=self.showing.width or DEFAULT_WIDTH,
        )
        write_outputs(shared, outputs, options, quiet=self.showing.quiet)
        if self.showing.json:
            from kvtool.results.document_base import dump

            sys.stdout.write(dump(shared))
        elif not any(output.to_stdout for output in outputs):
            from kvtool.report.terminal.check import print_check

            console = self.showing.console()
            written = tightened is not None and bool(tightened.told)
            line = command.without("tighten")
            print_check(console, result, show_text=show_text, command=line, can_tighten=raises, says_next=not written)
            if tightened is not None and written:
                from kvtool.fixes.edits.patch import unified_patch
                from kvtool.report.terminal.lines import put_next, shown_path
                from kvtool.report.terminal.patch import put_patch
                from kvtool.text.terminal.console import ascii_only, put, say

                plain = ascii_only(console)
                put(console)
                put_patch(console, unified_patch([tightened]), plain=plain)
                put(console)
                say(console, f"Written: {shown_path(tightened.path, plain)}", indent=0)
                put_next(console, "check against the new limits, here and in CI", line)
