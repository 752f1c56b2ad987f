"""The probe of an agent: fake agents of each protocol, with each fault known, and agents that misbehave."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.profiler import agents
from kvtool.profiler.agents import agent_run, circumstances, prefix_stability
from kvtool.profiler.agents.agent_commands import AgentCommand
from kvtool.profiler.agents.circumstances import VARIED, McpServer
from kvtool.profiler.agents.stub_server import StubTraffic
from tests.conftest import some

FAKE = Path(__file__).with_name("fake_agent.py")
PROTOCOLS = ("messages", "chat", "responses", "gemini")


@pytest.fixture(autouse=True)
def _nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each probe has a temporary folder of its own, which is empty in the end, and no process of it lives on."""
    before = children()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("kvtool-agent")] == []
    assert [
        each for each in of_processes("environ") if str(tmp_path).encode() in each and b"KVTOOL_PROBE_RUN=" in each
    ] == []
    assert children() == before


def of_processes(name: str) -> list[bytes]:
    found = []
    for each in Path("/proc").glob(f"[0-9]*/{name}"):
        try:
            found.append(each.read_bytes())
        except OSError:
            continue
    return found


def children() -> set[str]:
    """Return the processes that this one has started and that are still there."""
    return {number for task in Path("/proc/self/task").glob("*/children") for number in task.read_text().split()}


def command(protocol: str, *faults: str) -> str:
    quoted = " ".join(f"'{fault}'" for fault in faults)
    return f"{sys.executable} {FAKE} {protocol} {{prompt}} {quoted}".strip()


def probe(capsys: pytest.CaptureFixture[str], agent: str, *more: str) -> tuple[int, dict[str, Any]]:
    code = run(["probe", "--agent", agent, "--json", *([] if "--vary" in more else ["--fast"]), *more])
    shown = capsys.readouterr().out
    return code, json.loads(shown) if shown else {}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agent_that_only_appends_is_stable(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    agent = command(protocol)
    code, found = probe(capsys, agent, "--resume", agent)
    assert (code, found["verdict"], found["protocols"]) == (0, "stable", [protocol])
    assert (found["steps"]["steps"], found["steps"]["broken"]) == (8, 0)
    assert [row["place"] for row in found["circumstances"]] == [None, None]
    assert found["left_out"] == {}


@pytest.mark.parametrize("protocol", some(PROTOCOLS, 1))  # all: test_circumstances.py
def test_faults_that_break_steps_are_found_and_harmless_ones_are_not(
    protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = command(protocol, "model name", "late tool", "date", "title", "retry", "stream")
    code, found = probe(capsys, agent, "--resume", agent, "--turns", "2")
    assert (code, found["steps"]["steps"], found["steps"]["broken"]) == (1, 5, 5)
    assert found["circumstances"][0]["place"] is not None
    assert found["left_out"]["repeat of an unanswered request"] > 0


def test_each_circumstance_reaches_the_program_that_is_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    late = replace(VARIED[7], servers=(McpServer("late", 2.0),))
    monkeypatch.setattr(circumstances, "VARIED", (*VARIED[:7], late, *VARIED[8:]))
    leaks = {"folder": "system", "home": "tools", "git": "user", "locale": "system", "zone": "user", "tomorrow": "user"}
    agent = command("chat", *(f"{name} in {place}" for name, place in leaks.items()), "git anew in tools", "servers")
    agent += " {mcp}"
    clocks = set(Path("/dev/shm").glob("*faketime_*"))
    kept = tmp_path / "kept"
    more = ["--resume", agent, "--turns", "2", "--other", command("chat"), "--keep", str(kept)]
    code, found = probe(capsys, agent, *more, "--vary", "folder,home,git,locale,zone,tomorrow,mcp,version")
    left = set(Path("/dev/shm").glob("*faketime_*")) - clocks
    assert [each for each in left if not Path("/proc", each.name.rpartition("_")[2]).exists()] == []
    rows = {row["name"]: row for row in found["circumstances"]}
    skipped = {each["name"] for each in found["skipped"]}
    assert skipped <= {"tomorrow"}
    assert {name for name, row in rows.items() if row["place"]} == {*leaks, "mcp 1", "mcp 3", "version"} - skipped
    assert (rows["git"]["broken"], rows["mcp late"]["broken"], found["steps"]["broken"], code) == (1, 3, 0, 1)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert {"base.jsonl", "again.jsonl", "mcp-late.jsonl"} <= {each.name for each in kept.iterdir()}


def test_what_is_kept_can_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = command("messages", "model name")
    kept = str(tmp_path / "kept")
    code, found = probe(capsys, agent, "--resume", agent, "--turns", "2", "--keep", kept)
    [broken] = found["steps"]["breaks"]
    assert (code, broken["was"], broken["now"]) == (1, f"{kept}/base.jsonl:3", f"{kept}/base.jsonl:4")
    assert run(shlex.split(broken["command"])[1:]) in (0, 1)
    assert "Shared" in capsys.readouterr().out


def test_an_mcp_server_of_the_probe_answers() -> None:
    asked = [{"jsonrpc": "2.0", "id": n, "method": method} for n, method in enumerate(("initialize", "tools/list"))]
    ended = subprocess.run(
        [sys.executable, Path(agents.__file__).with_name("mcp_server.py"), "harbor", "0", ""],
        input="".join(json.dumps(each) + "\n" for each in asked),
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = map(json.loads, ended.stdout.splitlines())
    assert first["result"]["capabilities"] == {"tools": {}}
    assert [tool["name"] for tool in second["result"]["tools"]] == ["harbor_find", "harbor_keep"]


def test_an_agent_reaches_nothing_but_the_stub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = tmp_path / "seen"
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, sys\n"
        f"open({str(seen)!r}, 'w').write(' '.join(line.split(':')[0] for line in open('/proc/self/net/dev').readlines()[2:]))\n"
        f"sys.path.insert(0, {str(FAKE.parent)!r})\nimport fake_agent\nfake_agent.main('chat', sys.argv[1])\n"
    )
    code, found = probe(capsys, f"{sys.executable} {agent} {{prompt}}")
    is_private = not any("proxies" in note for note in found["notes"])
    assert code == 0
    assert not is_private or seen.read_text().split() == ["lo"]


def test_the_field_that_differs_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    agent = command("messages", "model name")
    assert run(["probe", "--agent", agent, "--resume", agent, "--turns", "2", "--fast"]) == 1
    shown = capsys.readouterr().out
    assert "1 of 5 steps does not begin with the step before" in shown
    assert "tools[0] read_file.description" in shown


def test_an_agent_sees_nothing_of_its_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    seen = tmp_path / "seen.json"
    script = tmp_path / "agent.py"
    script.write_text(f"import json, os; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))")
    assert run(["probe", "--agent", f"{sys.executable} {script}"]) == 2
    said = capsys.readouterr().err
    assert "sent no request" in said
    assert "ANTHROPIC_BASE_URL" in said
    variables = json.loads(seen.read_text())
    assert variables["HOME"] != os.environ.get("HOME")
    assert "sk-real" not in str(variables)


def test_without_a_network_of_its_own_an_agent_gets_a_closed_proxy_and_the_report_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_stability, "open_network", lambda: None)
    agent = tmp_path / "agent.sh"
    agent.write_text(f'#!/bin/sh\ntest "$HTTPS_PROXY" = http://127.0.0.1:9 && exec {command("chat")} "$@"\n')
    agent.chmod(0o755)
    code, found = probe(capsys, str(agent))
    assert code == 0
    assert any("closed port" in note for note in found["notes"])


def test_a_recipe_prepares_each_new_home(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    login = ("git", "init", "-q", "{home}/login")
    made = AgentCommand("x", ("sh", "-c", f'test -e "$HOME/login" && exec {command("chat")}'), prepare=login)
    monkeypatch.setattr(prefix_stability, "command_of", lambda *_: made)
    code, found = probe(capsys, "x")
    assert (code, [each["exit_codes"] for each in found["runs"]]) == (0, [[0], [0]])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; print('Log in first.'); sys.exit(3)", "exit code 3"),
        ("import time; time.sleep(600)", "sent no request"),
        ("input()", "sent no request"),
        ("post('/v1/embeddings', b'{}')", "/v1/embeddings"),
        ("post('/v1/messages', b'{broken')", "no JSON object"),
        ("post('/v1/messages', b'{\"messages\":' + b'[' * 400 + b']' * 400 + b'}')", "none that its API takes"),
        ("say(b'\\x16\\x03\\x01\\x02hello')", "something else than HTTP (bytes 16 03 01 02)"),
    ],
)
def test_an_agent_that_cannot_be_probed_ends_in_a_sentence(
    script: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = (
        "import os, socket, urllib.request\n"
        "def say(data):\n"
        "    address = ('127.0.0.1', int(os.environ['ANTHROPIC_BASE_URL'].rpartition(':')[2]))\n"
        "    with socket.create_connection(address) as there: there.sendall(data) or there.recv(1)\n"
        "def post(path, data):\n"
        "    url = os.environ['ANTHROPIC_BASE_URL'] + path\n"
        "    try: urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, data)\n"
        "    except OSError: pass\n"
    )
    file = tmp_path / "agent.py"
    file.write_text(client + script)
    timeout = "1" if "sleep" in script else "4"
    assert run(["probe", "--agent", f"{sys.executable} {file}", "--timeout", timeout]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_what_an_agent_leaves_behind_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, unique = tmp_path / "agent.py", f"60{os.getpid()}.5"
    agent.write_text(
        "import os, sys, time\n"
        "for environment in (os.environ, {}):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        f"        if os.fork() == 0: os.execve({shutil.which('sleep')!r}, ['sleep', {unique!r}], environment)\n"
        "        os._exit(0)\n"
        f"sys.path.insert(0, {str(FAKE.parent)!r})\nimport fake_agent\nfake_agent.main('chat', sys.argv[1])\n"
    )
    code, found = probe(capsys, f"{sys.executable} {agent} {{prompt}}")
    assert (code, found["verdict"]) == (0, "stable")
    left = sum(unique.encode() in each for each in of_processes("cmdline"))
    assert left == 0 or any("proxies" in note for note in found["notes"]), "a network of its own tells what is of a run"


def test_silence_counts_from_the_last_answer() -> None:
    traffic = StubTraffic(any=3, latest=time.monotonic())
    assert not prefix_stability._is_over(traffic, 0, 0.0, 1e6)
    traffic.latest -= 1e5
    assert not prefix_stability._is_over(traffic, 0, 0.0, 1.0)
    assert not prefix_stability._is_over(traffic, 0, 1e5, 1e6)
    assert prefix_stability._is_over(traffic, 0, 0.0, 1e6)


def test_a_folder_in_which_nobody_may_write_is_removed(tmp_path: Path) -> None:
    inner = tmp_path / "home" / "mod" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    (tmp_path / "home" / "link").symlink_to(tmp_path)
    for each in (inner, inner.parent):
        each.chmod(0o500)
    agent_run._remove(tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


def test_a_flood_of_requests_is_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, urllib.request\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        'while True: opener.open(url, b\'{"messages": [{"role": "user", "content": "x"}]}\')\n'
    )
    assert run(["probe", "--agent", f"{sys.executable} {agent}", "--timeout", "1"]) == 2
    assert "none goes on with another one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("agent", "said"), [("no-such-agent-xyz {prompt}", "no command"), ("''", ""), ("'open", "quot")]
)
def test_a_command_that_is_none_is_a_sentence(agent: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--agent", agent]) == 2
    assert said in capsys.readouterr().err
