"""The options of `kvtool probe`: the agent, its turns, and the time that it may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Option, Panel


@dataclass(frozen=True, kw_only=True)
class ProbedAgent:
    """The agent to run, turn by turn."""

    PANEL: ClassVar = Panel.COMMON
    agent: Annotated[
        str, Option("Command of the agent; {prompt}, {url}, {port}, {home} and {repo} are filled in.", "COMMAND")
    ]
    resume: Annotated[
        str | None, Option("Command that continues the session. Without it, kvtool runs one turn.", "COMMAND")
    ] = None
    turns: Annotated[int, Option("Turns of a session, with --resume.", "N", check=bounds.at_least_two)] = 3
    timeout: Annotated[
        float, Option("Time limit of each command.", "SECONDS", check=bounds.some_seconds, panel=Panel.ADVANCED)
    ] = 120.0
