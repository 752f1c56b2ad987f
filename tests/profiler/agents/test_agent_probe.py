"""The probe of an agent: fake agents of each protocol, with each fault known, and agents that misbehave."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run

FAKE = Path(__file__).with_name("fake_agent.py")
PROTOCOLS = ("messages", "chat", "responses", "gemini")
BREAKS = {"date": "all", "model name": "resume", "double result": "resume", "late tool": "late"}
HARMLESS = ("title", "retry", "stream")


@pytest.fixture(autouse=True)
def _nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each probe has a temporary folder of its own, which is empty in the end, and no process of it lives on."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("kvtool-agent")] == []
    assert [each for each in environments() if str(tmp_path).encode() in each and b"KVTOOL_PROBE_RUN=" in each] == []


def environments() -> list[bytes]:
    found = []
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(each.read_bytes())
        except OSError:
            continue
    return found


def command(protocol: str, *faults: str) -> str:
    quoted = " ".join(f"'{fault}'" for fault in faults)
    return f"{sys.executable} {FAKE} {protocol} {{prompt}} {quoted}".strip()


def probe(capsys: pytest.CaptureFixture[str], agent: str, *more: str) -> tuple[int, dict[str, Any]]:
    code = run(["probe", "--agent", agent, "--json", *more])
    shown = capsys.readouterr().out
    return code, json.loads(shown) if shown else {}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agent_that_only_appends_is_stable(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    agent = command(protocol)
    code, found = probe(capsys, agent, "--resume", agent)
    assert (code, found["verdict"], found["protocols"]) == (0, "stable", [protocol])
    assert (found["steps"]["steps"], found["steps"]["broken"]) == (8, 0)
    assert found["again"]["place"] is None
    assert found["left_out"] == {}


@pytest.mark.parametrize("seed", range(10))
def test_the_faults_of_an_agent_are_found_and_none_is_invented(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    protocol = rng.choice(PROTOCOLS)
    faults = rng.sample(sorted(BREAKS), rng.randint(0, 2))
    agent = command(protocol, *faults, *rng.sample(HARMLESS, rng.randint(0, 3)))
    code, found = probe(capsys, agent, "--resume", agent, "--turns", "2")
    steps = found["steps"]["steps"]
    assert steps == 5
    broken: set[int] = set()
    for fault in faults:
        # steps 1, 2 | 3 is the resume | 4, 5; a late tool is there from the third request of each process on
        broken |= {"all": set(range(1, 6)), "resume": {3}, "late": {2, 3, 5}}[BREAKS[fault]]
    assert found["steps"]["broken"] == len(broken), (protocol, faults)
    assert code == bool(broken)
    assert ("retry" in agent) == ("repeat of an unanswered request" in found["left_out"])
    assert "date" not in faults or found["again"]["place"] is not None


def test_the_field_that_differs_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    agent = command("messages", "model name")
    assert run(["probe", "--agent", agent, "--resume", agent, "--turns", "2"]) == 1
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


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; print('Log in first.'); sys.exit(3)", "exit code 3"),
        ("import time; time.sleep(600)", "sent no request"),
        ("input()", "sent no request"),
        ("post('/v1/embeddings', b'{}')", "/v1/embeddings"),
        ("post('/v1/messages', b'{broken')", "no JSON object"),
        ("post('/v1/messages', b'{\"messages\": []}')", ""),
    ],
)
def test_an_agent_that_cannot_be_probed_ends_in_a_sentence(
    script: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = (
        "import os, urllib.request\n"
        "def post(path, data):\n"
        "    url = os.environ['ANTHROPIC_BASE_URL'] + path\n"
        "    try: urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, data)\n"
        "    except OSError: pass\n"
    )
    file = tmp_path / "agent.py"
    file.write_text(client + script)
    assert run(["probe", "--agent", f"{sys.executable} {file}", "--timeout", "4"]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_what_an_agent_leaves_behind_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "    os._exit(0)\n"
        f"sys.argv = ['', 'chat', sys.argv[1]]\nexec(open({str(FAKE)!r}).read())\n"
    )
    code, found = probe(capsys, f"{sys.executable} {agent} {{prompt}}")
    assert (code, found["verdict"]) == (0, "stable")


def test_a_flood_of_requests_is_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, urllib.request\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        'while True: opener.open(url, b\'{"messages": [{"role": "user", "content": "x"}]}\')\n'
    )
    assert run(["probe", "--agent", f"{sys.executable} {agent}", "--timeout", "3"]) == 2
    assert "none goes on with another one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("agent", "said"), [("no-such-agent-xyz {prompt}", "no command"), ("''", ""), ("'open", "quot")]
)
def test_a_command_that_is_none_is_a_sentence(agent: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--agent", agent]) == 2
    assert said in capsys.readouterr().err
