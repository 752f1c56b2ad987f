"""What is made of the probe of an agent: baselines, other formats, `kvtool check`, the fixture, the list of recipes, recordings."""

from __future__ import annotations

import json
import stat
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvtool.cli.app import run
from kvtool.config.file_model import Config
from kvtool.errors import KvtoolError
from kvtool.profiler.agents import recording_stub
from kvtool.profiler.agents.agent_commands import command_of, is_tested, recipes
from kvtool.profiler.agents.circumstances import McpServer
from kvtool.results.documents.agent_probe import AgentProbe
from tests.profiler.agents.fake_agent import FakeAgent, World

FAKE = Path(__file__).with_name("fake_agent.py")


def command(*faults: str) -> str:
    return " ".join([sys.executable, str(FAKE), "messages", "{prompt}", *(f"'{fault}'" for fault in faults)])


def test_a_baseline_says_what_became_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "agent.json")
    same, more = command("folder in user", "late tool"), command("folder in system", "late tool")
    assert run(["probe", "--agent", same, "--vary", "folder", "--write-baseline", file]) == 0
    text = Path(file).read_text()
    assert "Rule 1" not in text
    assert "seconds" not in text
    assert run(["probe", "--agent", same, "--vary", "folder", "--baseline", file]) == 0  # what breaks there breaks here
    assert "Nothing is worse" in capsys.readouterr().out
    assert run(["probe", "--agent", more, "--vary", "folder", "--baseline", file, "--max-drop", "50%"]) == 0
    assert "differs first" in capsys.readouterr().out
    assert run(["probe", "--agent", more, "--vary", "folder", "--baseline", file]) == 1
    assert "folder keeps" in capsys.readouterr().out
    broken = command("folder in user", "late tool", "date")
    assert run(["probe", "--agent", broken, "--fast", "--baseline", file]) == 1
    assert "the baseline has 1" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "kvtool.report/1"}', '{"schema": "kvtool.agent-probe/1"}'])
def test_a_baseline_that_is_none_is_a_sentence(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.json"
    file.write_text(text)
    assert run(["probe", "--agent", command(), "--baseline", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_check_runs_the_agents_of_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = f"[[probe]]\nagent = {json.dumps(command())}\n\n[[probe]]\nagent = {json.dumps(command('late tool'))}\n"
    Path("kvtool.toml").write_text(config)
    names = ("r.json", "r.md", "r.html", "r.sarif", "r.xml")
    outputs = [word for name in names for word in ("-o", name)]
    assert run(["check", *outputs]) == 2  # no file can ask to be executed
    assert "--run-agents" in capsys.readouterr().err
    assert run(["check", "--run-agents", *outputs]) == 1
    shown = capsys.readouterr().out
    assert "KV411" in shown
    assert "1 step does not begin with the step before" in shown
    result = json.loads(Path("r.json").read_text())
    assert [probe["verdict"] for probe in result["probes"]] == ["stable", "broken"]
    assert [check["status"] for check in result["verdict"]["checks"]] == ["pass", "fail"]
    assert (result["findings"][0]["path"], result["findings"][0]["line"]) == ("kvtool.toml", 5)
    places = json.loads(Path("r.sarif").read_text())["runs"][0]["results"]
    assert {each["locations"][0]["physicalLocation"]["region"]["startLine"] for each in places} == {5}
    assert ET.parse("r.xml").getroot().get("failures") != "0"
    for name in ("r.md", "r.html"):
        assert "mcp_notes" in Path(name).read_text()
    Path("kvtool.toml").write_text('[[probe]]\nagent = "no-such-agent-xyz {prompt}"\n')
    assert run(["check", "--run-agents"]) == 2
    assert "kvtool.toml:2" in capsys.readouterr().err
    Path("p.txt").write_text("A prompt.")
    Path("q.txt").write_text("A prompt, too.")
    Path("kvtool.toml").write_text('workloads = ["*.txt"]\n[[probe]]\nagent = "no-such-agent-xyz"\n')
    assert run(["check"]) == 0
    assert "names 1 agent" in capsys.readouterr().out


def test_formats_of_a_probe_quote_no_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("p.json", "p.md", "p.html", "p.sarif", "p.xml")
    outputs = [word for name in names for word in ("-o", str(tmp_path / name))]
    assert run(["probe", "--agent", command("date"), "--fast", *outputs, "-o", "github"]) == 1
    assert "::error" in capsys.readouterr().out
    for name in names:
        text = (tmp_path / name).read_text()
        assert "system, line" in text
        assert "Rule 1" not in text


def test_the_fixture_probes_a_command_and_a_function(kv_agent: Callable[..., AgentProbe]) -> None:
    assert kv_agent(command("late tool")).steps.broken == 1

    def make(url: str) -> Callable[[str], None]:
        agent = FakeAgent("messages", ["double result"])
        world = World(dict.fromkeys(("folder", "home", "git", "locale", "zone", "tomorrow"), ""))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def send(body: object, retry: int = 0) -> object:
            with opener.open(f"{url}/v1/messages", json.dumps(body).encode()) as answer:
                return json.load(answer)

        return lambda prompt: agent.turn(prompt, world, send)

    found = kv_agent(make, turns=2)
    assert (found.steps.steps, found.steps.broken, found.verdict) == (5, 1, "broken")


def test_recipes_are_whole_and_turn_nothing_on() -> None:
    known = recipes()
    assert {"claude", "codex", "gemini", "qwen", "opencode", "pi", "aider", "mini-swe-agent"} <= set(known)
    values = {"url": "http://127.0.0.1:1", "port": "1", "home": "/h", "repo": "/r", "mcp": "/h/mcp.json", "ready": "/t"}
    for name, recipe in known.items():
        made = command_of(name)
        assert made.first[0] == recipe.program
        assert is_tested(recipe.tested[0], recipe.tested)
        assert "{prompt}" in made.first
        for path, text in made.files_of(values, [McpServer("harbor"), McpServer("late", 4)]).items():
            assert not set(values) & {word.strip("{}") for word in text.split()}, (name, path)
            if path.endswith(".json"):
                servers = json.loads(text)
                assert not made.takes_servers or path != "mcp.json" or set(servers["mcpServers"]) == {"harbor", "late"}
            if path.endswith(".toml"):
                import tomllib

                assert set(tomllib.loads(text)["mcp_servers"]) == {"harbor", "late"}
    older = command_of("claude", other="/old/claude").other
    assert older is not None
    assert older[0][0] == "/old/claude"


def test_the_list_of_recipes_says_what_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in (("claude", "2.1.200 (Claude Code)"), ("codex", "codex-cli 9.9.9"), ("pi", "")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{version}'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert run(["probe", "--doctor", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["agents"]}
    assert {name: each["status"] for name, each in found.items()} == {
        **dict.fromkeys(found, "not installed"),
        "claude": "tried",
        "codex": "not tried",
        "pi": "unknown version",
    }
    assert run(["probe", "--doctor"]) == 0
    assert "2.1.200" in capsys.readouterr().out


def test_requests_of_an_agent_that_somebody_else_starts_are_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "session.jsonl"
    port = recording_stub.listening("0")
    number = port.getsockname()[1]
    port.close()

    def agent() -> None:
        url = f"http://127.0.0.1:{number}/v1/messages"
        for said in (["a"], ["a", "b"]):
            body = {"messages": [{"role": "user", "content": each} for each in said]}
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, json.dumps(body).encode()).read()
        raise KeyboardInterrupt

    monkeypatch.setattr(recording_stub, "until_interrupted", agent)
    assert recording_stub.record(f"127.0.0.1:{number}", str(file)) == 2
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:" in capsys.readouterr().err
    assert [len(json.loads(line)["body"]["messages"]) for line in file.read_text().splitlines()] == [1, 2]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run(["logs", str(file)]) == 0
    monkeypatch.setattr(recording_stub, "until_interrupted", lambda: None)
    assert run(["probe", "--record", "0", "-o", str(file)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert run(["probe", "--record", "0", "-o", str(tmp_path / "other.jsonl")]) == 0


def test_recordings_are_made_on_loopback_only() -> None:
    for address in ["0.0.0.0:80", "example.com:80", "x", "127.0.0.1:99999", "[::]:1", "127.0.0.1:-1"]:
        with pytest.raises(KvtoolError, match="no port of this machine"):
            recording_stub.listening(address)


def test_a_port_in_use_is_a_sentence() -> None:
    with recording_stub.listening("0") as port, pytest.raises(KvtoolError, match="cannot listen"):
        recording_stub.listening(str(port.getsockname()[1]))


def test_the_table_of_a_probe_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="agent"):
        Config.model_validate({"probe": [{"turns": 2}]})
