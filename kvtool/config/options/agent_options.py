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
        str | None,
        Option(
            "Name of a recipe, or command of the agent; {prompt}, {url}, {port}, {home}, {repo} and {mcp} are filled in.",
            "NAME|COMMAND",
        ),
    ] = None
    resume: Annotated[
        str | None, Option("Command that continues the session. Without it, kvtool runs one turn.", "COMMAND")
    ] = None
    turns: Annotated[int, Option("Turns of a session, with --resume.", "N", check=bounds.at_least_two)] = 3
    vary: Annotated[
        str | None, Option("Circumstances to change, one in each run: folder,home,git,… Without it, all.", "LIST")
    ] = None
    fast: Annotated[bool, Option("Run the agent twice and change nothing.")] = False
    other: Annotated[
        str | None, Option("Command of another version; for a recipe, the path of its program.", "COMMAND")
    ] = None
    baseline: Annotated[str | None, Option("Earlier probe to compare with.", "FILE")] = None
    write_baseline: Annotated[str | None, Option("File for the probe that later ones are compared with.", "FILE")] = (
        None
    )
    max_drop: Annotated[str | None, Option("Allowed fall of a kept share below the baseline: 0.01 or 1%.", "RATIO")] = (
        None
    )
    doctor: Annotated[bool, Option("List the recipes, and which of their agents are installed.")] = False
    record: Annotated[
        str | None,
        Option(
            "Address at which the stub waits for an agent that you start; its requests go into the file of -o.",
            "ADDRESS",
        ),
    ] = None
    keep: Annotated[str | None, Option("Folder to keep the requests in; they contain prompts.", "FOLDER")] = None
    price_model: Annotated[
        str | None,
        Option("Model that sets the price of losses; without it, the model that the agent asks for.", "MODEL"),
    ] = None
    script: Annotated[
        str | None,
        Option("Own answers of the stub: a JSON list of calls and texts.", "FILE", panel=Panel.ADVANCED),
    ] = None
    long: Annotated[bool, Option("Answer with 20 calls of tools in each turn.", panel=Panel.ADVANCED)] = False
    fill: Annotated[
        int,
        Option(
            "Prompt tokens that the stub reports at least, so that the agent compacts its history.",
            "TOKENS",
            check=bounds.not_negative,
            panel=Panel.ADVANCED,
        ),
    ] = 0
    latency: Annotated[
        float, Option("Time until the stub answers.", "SECONDS", check=bounds.seconds, panel=Panel.ADVANCED)
    ] = 0.0
    timeout: Annotated[
        float, Option("Time limit of each command.", "SECONDS", check=bounds.some_seconds, panel=Panel.ADVANCED)
    ] = 120.0
