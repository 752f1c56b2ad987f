"""Session files that real agents write, where they are installed and KVTOOL_REAL_AGENTS is set: each request of a session is read
with the tokens that its provider, a stub on this machine, reported."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kvtool.profiler.agents.agent_commands import recipes
from kvtool.profiler.agents.agent_run import AgentFolder
from kvtool.profiler.agents.circumstances import BASE
from kvtool.profiler.agents.private_network import LOOPBACK, open_network
from kvtool.profiler.agents.stub_answers import StubTokens
from kvtool.profiler.agents.stub_server import KeptRequest, StubServer
from kvtool.profiler.sessions.agent_folders import find_folders
from tests.workload.logs.reading_made import Read

TIMEOUT = 120.0
SESSIONS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "qwen": "Qwen Code",
    "opencode": "opencode",
    "pi": "Pi",
    "cline": "Cline and Roo",
}
FILES = {"mini-swe-agent": "trajectory.json"}
"""Files in the home of agents that `kvtool sessions` does not look for."""


@pytest.mark.skipif("KVTOOL_REAL_AGENTS" not in os.environ, reason="KVTOOL_REAL_AGENTS is not set")
@pytest.mark.parametrize("agent", [*SESSIONS, *FILES])
def test_sessions_of_real_agents_are_read(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipes()[agent]
    if shutil.which(recipe.program) is None:
        pytest.skip(f"{agent} is not installed")
    command, reported, keep = recipe.command(), list[tuple[int, int]](), StubServer.keep

    def noted(stub: StubServer, request: KeptRequest, size: int) -> tuple[int, StubTokens] | None:
        kept = keep(stub, request, size)
        reported.extend([] if kept is None else [(kept[1].prompt, kept[1].cached)])
        return kept

    monkeypatch.setattr(StubServer, "keep", noted)
    with ExitStack() as stack:
        network = open_network()
        if network is not None:
            stack.callback(network.close)
        stub = stack.enter_context(StubServer(None if network is None else network.port))
        folder = stack.enter_context(AgentFolder(f"http://{LOOPBACK}:{stub.port}", command, network))
        folder.prepare(BASE)
        stub.folder, stub.final = str(folder.repo), command.final
        never: Callable[[float], bool] = lambda _: False  # noqa: E731
        if command.prepare is not None:
            folder.run(command.prepare, 0, "", TIMEOUT, never)
        turns = [command.first] if command.later is None else [command.first, command.later]
        for turn, words in enumerate(turns):
            stub.run, stub.turn = "base", turn
            folder.run(words, turn, f"What does tide.py print? ({turn})", TIMEOUT, never)
        paths = [folder.home / FILES[agent]] if agent in FILES else []
        if not paths:
            found = find_folders([], folder.environment())
            paths = [Path(file.path) for each in found if each.agent == SESSIONS[agent] for file in each.files]
        read = Read(*paths)
    rows = Counter((row["prompt_tokens"], row.get("cached_tokens") or 0) for row in read.rows)
    assert len(read.rows) >= len(turns)
    assert not rows - Counter(reported), (rows, reported)
    assert len(read.rows) >= len(reported) / 2, (rows, reported)  # side requests, as for a title, are in no session
