"""The command `kvtool probe`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.command_line import flag
from kvtool.config.option import only
from kvtool.config.options.agent_options import ProbedAgent
from kvtool.config.options.run_options import Rendering
from kvtool.config.options.shown_options import Showing
from kvtool.errors import KvtoolError


@dataclass(frozen=True, kw_only=True)
class ProbeCommand(Command):
    """Check that each request of an agent begins with the request before it.

    kvtool runs the agent in an empty home folder. A local stub answers its API requests. The agent gets the usual variables for a
    server's address and dummy keys. The exit code is 1 if a step breaks.
    """

    probed: ProbedAgent
    rendering: Annotated[Rendering, only("tokenizer")]
    showing: Annotated[Showing, only("json", "quiet", "offline", "color", "plain", "width")]

    def run(self) -> int:
        """Probe and print; 0 where each step begins with the step before, 1 where one breaks. KvtoolError for no requests."""
        from kvtool.profiler.agents.prefix_stability import AgentProbeOptions, probe_agent
        from kvtool.text.tokens.tokenizer import load_tokenizer

        if self.probed.agent is None:
            raise KvtoolError(
                f"{flag('agent')} is missing", hint=f"give a recipe's name or a command: {flag('agent')} claude"
            )
        with self.showing.progress("runs") as progress:
            asked = self.probed
            options = AgentProbeOptions(
                asked.agent,
                asked.resume,
                asked.turns,
                asked.timeout,
                vary=asked.vary,
                fast=asked.fast,
                other=asked.other,
                latency=asked.latency,
                keep=asked.keep,
                on_run=lambda name: progress.stage(f"run {name}", None),
            )
            document = probe_agent(
                options, lambda: load_tokenizer(self.rendering.tokenizer, offline=self.showing.offline)
            )
        if self.showing.json:
            sys.stdout.write(document.to_json())
        else:
            from kvtool.report.terminal.agent_probe import print_agent_probe
            from kvtool.text.terminal.streams import printing

            with printing():
                print_agent_probe(self.showing.console(), document)
        return int(document.verdict == "broken")
