"""The command `kvtool probe`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.command_line import flag
from kvtool.config.option import Argument, only
from kvtool.config.options.agent_options import ProbedAgent
from kvtool.config.options.lint_options import Probing, Selecting, Walking
from kvtool.config.options.run_options import Reading, Rendering, Serving
from kvtool.config.options.shown_options import Configured, Showing, Writing
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.report.outputs import OutputFile
    from kvtool.results.documents.agent_probe import AgentProbe
    from kvtool.results.verdict import Check

_FORMATS = ("json", "markdown", "github", "junit", "sarif", "gitlab", "html")


@dataclass(frozen=True, kw_only=True)
class ProbeCommand(Command):
    """Check that each request of an agent begins with the request before it.

    With BUILDER instead of --agent, it runs code that prints a prompt, with one circumstance changed at a time, and names each
    that reaches the prompt. kvtool lint --probe does the same beside its other findings.

    kvtool runs the agent in an empty home folder. A local stub answers its API requests. The agent gets the usual variables for a
    server's address and dummy keys. kvtool runs it twice, then once for each circumstance: another folder, user, day, locale.

    Exit codes: 0 if no step breaks; 1 if one does, or if less is kept than in the baseline; 2 for an agent that cannot be run.
    """

    builder: Annotated[
        str | None, Argument("Prompt builder to RUN many times: 'python build.py' or module:function.", "BUILDER")
    ] = None
    probed: ProbedAgent
    rendering: Annotated[Rendering, only("tokenizer", "chat_template")]
    serving: Annotated[Serving, only("block_size")]
    writing: Annotated[Writing, only("show_text", "outputs")]
    showing: Annotated[Showing, only("json", "quiet", "offline", "color", "plain", "width")]

    def run(self) -> int:
        """Probe and print; 0 where each step begins with the step before, 1 where one breaks. KvtoolError for no requests."""
        asked = self.probed
        if asked.doctor:
            return self._list_recipes()
        if asked.record is not None:
            return self._record(asked.record)
        if self.builder is not None:
            return self._run_builder(self.builder)
        if asked.agent is None:
            raise KvtoolError(
                f"{flag('agent')} is missing", hint=f"give the name of a recipe or a command: {flag('agent')} claude"
            )
        from kvtool.gate.agent_gate import judge_probe, parse_drop
        from kvtool.report.outputs import check_outputs
        from kvtool.results.files import load_agent_probe
        from kvtool.results.verdict_of import verdict_of
        from kvtool.text.files.atomic_file import AtomicFile

        named = {asked.baseline: "the baseline", asked.write_baseline: f"the file of {flag('write_baseline')}"}
        taken = {path: what for path, what in named.items() if path is not None}
        outputs = check_outputs(self.writing.outputs, (), json=self.showing.json, taken=taken, formats=_FORMATS)
        if asked.write_baseline is not None:
            AtomicFile(asked.write_baseline).discard()  # that it cannot be written is told before anything runs
        before = None if asked.baseline is None else load_agent_probe(asked.baseline)
        max_drop = parse_drop(asked.max_drop)
        document = self._probe(asked.agent)
        checks = judge_probe(document, before, max_drop)
        self._write(document, checks, outputs)
        if asked.write_baseline is not None:
            return 0
        return verdict_of(checks).exit_code

    def _run_builder(self, builder: str) -> int:
        from kvtool.cli.commands.lint import LintCommand

        if self.probed != replace(ProbedAgent(), timeout=self.probed.timeout):
            hint = f"leave out {builder}, or all options of agents but {flag('timeout')}"
            raise KvtoolError("a prompt builder and an agent cannot both be probed", hint=hint)
        return LintCommand(
            selecting=Selecting(),
            walking=Walking(),
            probing=Probing(probe=builder, probe_timeout=self.probed.timeout),
            rendering=self.rendering,
            serving=self.serving,
            reading=Reading(),
            writing=self.writing,
            configured=Configured(),
            showing=self.showing,
        ).run()

    def _probe(self, agent: str) -> AgentProbe:
        from kvtool.profiler.agents.own_script import LONG_CALLS, USUAL_CALLS, StubScript, load_script
        from kvtool.profiler.agents.prefix_stability import AgentProbeOptions, probe_agent
        from kvtool.text.tokens.tokenizer import load_tokenizer

        asked = self.probed
        if asked.script is not None and asked.long:
            raise KvtoolError(
                f"{flag('script')} and {flag('long')} exclude each other", hint="use a script with as many calls"
            )
        replies = () if asked.script is None else load_script(asked.script)
        script = StubScript(replies, LONG_CALLS if asked.long else USUAL_CALLS, asked.fill)
        with self.showing.progress("runs") as progress:
            options = AgentProbeOptions(
                agent,
                asked.resume,
                asked.turns,
                asked.timeout,
                vary=asked.vary,
                fast=asked.fast,
                other=asked.other,
                latency=asked.latency,
                keep=asked.keep,
                script=script,
                price_model=asked.price_model,
                on_run=lambda name: progress.stage(f"run {name}", None),
            )
            return probe_agent(options, lambda: load_tokenizer(self.rendering.tokenizer, offline=self.showing.offline))

    def _write(self, document: AgentProbe, checks: list[Check], outputs: list[OutputFile]) -> None:
        from kvtool.gate.agent_gate import checked_probe
        from kvtool.report.outputs import output_root, write_outputs
        from kvtool.report.write_options import WriteOptions
        from kvtool.text.files.atomic_file import AtomicFile
        from kvtool.text.terminal.streams import printing

        if self.probed.write_baseline is not None:
            with AtomicFile(self.probed.write_baseline) as file:
                file.write(document.as_baseline().to_json().encode())
        options = WriteOptions(root=output_root(), command=tuple(self.showing.command_line or ("probe",)))
        ready = {"json": document.to_json()}
        write_outputs(checked_probe(document, checks), outputs, options, ready=ready, quiet=self.showing.quiet)
        if self.showing.json:
            sys.stdout.write(document.to_json())
        elif not any(output.to_stdout for output in outputs):
            from kvtool.report.terminal.agent_probe import print_agent_probe, print_changes

            with printing():
                console = self.showing.console()
                print_agent_probe(console, document)
                if self.probed.baseline is not None:
                    print_changes(console, checks)

    def _list_recipes(self) -> int:
        from kvtool.profiler.agents.installed_agents import list_recipes
        from kvtool.report.terminal.agent_probe import print_recipes
        from kvtool.text.terminal.streams import printing

        document = list_recipes()
        if self.showing.json:
            sys.stdout.write(document.to_json())
            return 0
        with printing():
            print_recipes(self.showing.console(), document)
        return 0

    def _record(self, address: str) -> int:
        from kvtool.profiler.agents.recording_stub import record, recorded

        if len(self.writing.outputs) != 1:
            raise KvtoolError(
                f"{flag('record')} needs one file to write", hint="add -o session.jsonl; the file will contain prompts"
            )
        [path] = self.writing.outputs
        print(recorded(record(address, path), path), file=sys.stderr)
        return 0
