"""Run the agents that a configuration file names, and judge them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvtool.config.file_model import ProbeTable
from kvtool.config.loading import ConfigFile
from kvtool.config.options.judged_options import DEFAULT_DROP
from kvtool.errors import KvtoolError, Place
from kvtool.gate.agent_gate import judge_probe, probe_findings
from kvtool.results.documents.agent_probe import AgentProbe
from kvtool.results.files import load_agent_probe
from kvtool.results.finding import Finding
from kvtool.results.verdict import Check
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class AgentToCheck:
    """An agent of a configuration file: its table, its place, the folder of its paths, and its baseline."""

    table: ProbeTable
    place: Place
    folder: str
    baseline: str | None


@dataclass(frozen=True, slots=True)
class CheckedAgent:
    """An agent that was run."""

    probe: AgentProbe
    checks: Sequence[Check]
    findings: Sequence[Finding]


def agents_of(file: ConfigFile | None) -> list[AgentToCheck]:
    """Return the agents of a configuration file. KvtoolError for a baseline that is outside of its folder."""
    if file is None:
        return []
    return [
        AgentToCheck(
            table,
            file.place("probe", number, "agent"),
            os.path.dirname(os.path.abspath(file.path)),  # noqa: PTH100, PTH120 - links stay
            None
            if table.baseline is None
            else file.inside(file.resolve(table.baseline), file.place("probe", number, "baseline")),
        )
        for number, table in enumerate(file.config.probe)
    ]


def check_agents(
    agents: Sequence[AgentToCheck], load: Callable[[], Tokenizer], progress: Progress
) -> Iterator[CheckedAgent]:
    """Run each agent and judge it. KvtoolError, with its place, for one that cannot be run."""
    from kvtool.profiler.agents.prefix_stability import AgentProbeOptions, probe_agent

    for each in agents:
        table = each.table
        before = None if each.baseline is None else load_agent_probe(each.baseline)
        options = AgentProbeOptions(
            table.agent,
            table.resume,
            table.turns,
            table.timeout,
            vary=",".join(table.vary),
            folder=Path(each.folder),
            on_run=lambda name: progress.stage(f"run {name}", None),
        )
        try:
            probe = probe_agent(options, load)
        except KvtoolError as error:
            raise KvtoolError(error.message, hint=error.hint, place=error.place or each.place) from error
        max_drop = DEFAULT_DROP if table.max_drop is None else table.max_drop
        yield CheckedAgent(probe, judge_probe(probe, before, max_drop, each.place), probe_findings(probe, each.place))
