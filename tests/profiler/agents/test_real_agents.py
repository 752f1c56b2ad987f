"""Real agents, where they are installed in the versions below and KVTOOL_REAL_AGENTS is set: each takes up to three minutes."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from kvtool.cli.app import run

KNOWN = {
    ("claude", "2.1.197"): {"base": 1, "mcp late": 4},
    ("claude", "2.1.332"): {"base": 0, "mcp late": 0},
    ("codex", "0.171.0"): {"base": 0, "mcp late": 5},
    ("gemini", "0.61.0"): {"base": 2, "mcp late": 0},
    ("opencode", "1.18.33"): {"base": 0, "mcp late": 0},
}
"""Steps that break in a session of three turns, and steps that only a late MCP server breaks."""


@pytest.mark.skipif("KVTOOL_REAL_AGENTS" not in os.environ, reason="KVTOOL_REAL_AGENTS is not set")
@pytest.mark.parametrize("agent", sorted({name for name, _ in KNOWN}))
def test_faults_of_real_agents_are_found_again(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(agent) is None:
        pytest.skip(f"{agent} is not installed")
    run(["probe", "--agent", agent, "--vary", "mcp", "--json"])
    found = json.loads(capsys.readouterr().out)
    known = KNOWN.get((agent, found["version"]))
    if known is None:
        pytest.skip(f"nothing is known of {agent} {found['version']}")
    late = next(row for row in found["circumstances"] if row["name"] == "mcp late")
    assert {"base": found["steps"]["broken"], "mcp late": late["broken"]} == known
