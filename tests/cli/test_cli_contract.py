"""The checks that the command line must pass, by number, over the installed command; and all commands at all widths.

The second one, that two runs give the same bytes, is in tests/fuzz/test_determinism.py.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.text.terminal.console import cell_width
from tests.files import widest, write
from tests.interrupting import interrupt_at

KVTOOL = str(Path(sys.executable).parent / "kvtool")
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "workloads").glob("*.yaml"))
RULES = "You are the support agent of a shop. Be short, be kind, and never promise what the terms do not say. " * 3
WORKLOAD = f"""\
version: 1   # the format, not ours
vars:
  now: {{datetime: 1m}}   # a clock
  n: {{counter: 1}}
groups:
  - name: support
    requests: 12
    messages:
      - role: system
        # what the agent is told
        text: |
          Now: {{{{ now }}}}
          {RULES}
      - {{role: user, text: "Question {{{{ n }}}}?"}}
  - name: chat
    sessions: {{count: 2, turns: 3, output_tokens: 20}}
    messages:
      - {{role: system, text: "You talk to people who plan a journey."}}
      - {{role: user, text: "And then {{{{ n }}}}?"}}
"""
SETTINGS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL")

Installed = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_json: str) -> Path:
    """A working folder with a workload, prompts and a log; every command takes one token for a byte."""
    monkeypatch.chdir(tmp_path)
    for name in (*SETTINGS, *(name for name in os.environ if name.startswith("KVTOOL_"))):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KVTOOL_TOKENIZER", bytes_json)
    write("w.yaml", WORKLOAD)
    for name, day in (("a", "Monday"), ("b", "Friday"), ("c", "Sunday")):
        write(f"{name}.txt", f"{RULES}\nToday is {day}, the {len(day)}th.\n{RULES}")
    write("log.jsonl", "".join(json.dumps({"prompt": f"{RULES} {n}"}) + "\n" for n in range(6)))
    write("t.j2", f"Now: {{{{ now }}}}\n{RULES}{RULES}")
    return tmp_path


@pytest.fixture
def kvtool(folder: Path) -> Installed:
    """Runs the installed command as a process."""

    def start(*arguments: str, given: bytes | None = None, **variables: str) -> subprocess.CompletedProcess[bytes]:
        environment = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **os.environ, **variables}
        return subprocess.run(
            [KVTOOL, *arguments],
            env={name: value for name, value in environment.items() if value != "-"},
            cwd=folder,
            input=given,
            capture_output=True,
            timeout=120,
        )

    return start


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    script = f'set -o pipefail; PATH="{Path(KVTOOL).parent}:$PATH"; {line}'
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120)


def test_1_bare_it_helps_and_a_typing_error_is_understood(kvtool: Installed) -> None:
    bare = kvtool()
    assert bare.returncode == 0
    assert b"Usage: kvtool" in bare.stdout
    typo = kvtool("profil", "w.yaml")
    assert typo.returncode == 2
    assert b"did you mean" in typo.stderr.lower()
    assert b"`profile`" in typo.stderr


def test_3_and_5_a_narrow_ascii_terminal_is_no_obstacle(kvtool: Installed) -> None:
    """Other widths, and all other commands, are below."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = kvtool("profile", "w.yaml", "--dry-run", COLUMNS="60", **ascii_only)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert 30 < widest(done.stdout.decode()) <= 60


def test_4_colour_follows_the_environment(kvtool: Installed) -> None:
    """All variables: command_line/test_terminal_report.py."""
    done = kvtool("explain", "KV101", CLICOLOR_FORCE="1")
    assert b"\x1b" in done.stdout
    assert b"\x1b" not in done.stderr


def test_6_mistakes_have_codes_and_places(kvtool: Installed) -> None:
    write("bad.yaml", WORKLOAD.replace("requests: 12", "requestss: 12"))
    bad = kvtool("profile", "bad.yaml")
    assert bad.returncode == 2
    assert b"bad.yaml:7:5: unknown key `requestss`" in bad.stderr
    assert b"Traceback" not in bad.stderr


def test_7_pipes_on_either_side(folder: Path, kvtool: Installed) -> None:
    piped = kvtool("diff-prompts", "a.txt", "-", given=Path("b.txt").read_bytes())
    assert piped.returncode == 0
    assert b"Reusable" in piped.stdout
    for command in ("lint w.yaml", "explain --list"):  # of profile: test_streams.py
        done = shell(folder, f"kvtool {command} | head -1 >/dev/null")
        assert done.stderr == "", command
        assert done.returncode in (0, 1), command  # of lint: it found an error


def test_8_without_a_network_the_report_stands_alone(folder: Path, kvtool: Installed) -> None:
    write("offline/sitecustomize.py", "import socket\n\ndef refuse(*_):\n    raise OSError('no network')\n")
    with Path("offline/sitecustomize.py").open("a") as file:
        file.write("socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse\n")
    done = kvtool("profile", "w.yaml", "--dry-run", "-o", "report.html", PYTHONPATH=str(folder / "offline"))
    assert done.returncode == 0, done.stderr
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    references = re.findall(r"""\b(?:src|href|action|data)\s*=\s*["']?([^"'\s>]+)""", page)
    assert [link for link in references if not link.startswith(("#", "data:"))] == []
    assert not re.search(r"@import|url\(\s*['\"]?(?!#|data:)", page)


def test_9_fixes_are_shown_made_and_then_done(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("w.yaml").read_bytes()
    assert run(["lint", "w.yaml", "--unsafe-fixes", "--diff"]) == 1
    assert "+++ " in capsys.readouterr().out
    assert Path("w.yaml").read_bytes() == before
    run(["lint", "w.yaml", "--fix", "--unsafe-fixes"])
    after = Path("w.yaml").read_bytes()
    assert after != before
    run(["lint", "w.yaml", "--fix", "--unsafe-fixes"])
    assert Path("w.yaml").read_bytes() == after
    for comment in (b"# the format, not ours", b"# a clock", b"# what the agent is told"):
        assert comment in after
    capsys.readouterr()
    assert run(["lint", "w.yaml", "--unsafe-fixes", "--diff"]) == 0
    assert capsys.readouterr().out == ""


# All commands at all widths. They run in this process: some hundred processes would take minutes.

COMMANDS = {
    "help": [],
    "profile": ["profile", "w.yaml", "--dry-run", "--by", "line", "--boundaries", "--min-hit-rate", "0.9"],
    "profile a log": ["profile", "log.jsonl", "--dry-run", "--capacity", "50", "--concurrency", "2"],
    "check": ["check", "w.yaml", "log.jsonl", "--min-hit-rate", "0.9", "--error-on", "KV1"],
    "lint": ["lint", "w.yaml", "t.j2"],
    "optimize": ["optimize", "w.yaml", "--allow", "P2,P3", "--breakpoints", "2"],
    "diff-prompts": ["diff-prompts", "a.txt", "b.txt", "--tokens"],
    "diff-prompts of many": ["diff-prompts", "a.txt", "b.txt", "c.txt"],
    "compare": ["compare", "old.json", "new.json"],
    "report": ["report", "new.json"],
    "config": ["config", "w.yaml"],
    "explain": ["explain", "KV101"],
    "explain all": ["explain", "--list"],
    "size": ["size", "llama-3.1-8b"],
    "doctor": ["doctor"],
    "a mistake": ["profile", "missing.yaml"],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, bytes_json: str) -> Path:
    """Two saved results, before and after a change."""
    import kvtool

    folder = tmp_path_factory.mktemp("results")
    for name, text in (("old", WORKLOAD.replace("Now: {{ now }}", "Hello.")), ("new", WORKLOAD)):
        path = write(str(folder / name / "w.yaml"), text)
        kvtool.profile(path, tokenizer=bytes_json).save(folder / f"{name}.json")
    return folder


def in_process(arguments: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command whose terminal has that encoding."""
    out, err = BytesIO(), BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", TextIOWrapper(out, encoding=encoding, errors="strict", write_through=True))
        patch.setattr(sys, "stderr", TextIOWrapper(err, encoding=encoding, errors="strict", write_through=True))
        code = run(arguments)
        sys.stdout.flush()
        return code, out.getvalue().decode(encoding), err.getvalue().decode(encoding)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_keeps_to_the_width(
    name: str, folder: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("old.json", "new.json"):
        shutil.copy(results / file, file)
    for columns, encoding in ((60, "utf-8"), (80, "ascii")):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = in_process(COMMANDS[name], encoding, monkeypatch)
        assert code in (0, 1) or (name == "a mistake" and code == 2), err
        lines = (out + err).splitlines()
        assert lines
        too_wide = [line for line in lines if widest(line) > columns]
        assert not too_wide


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"help", "a mistake", "config", "explain", "explain all"}))
def test_plain_reports_have_no_drawings_and_no_columns(
    name: str, folder: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("old.json", "new.json"):
        shutil.copy(results / file, file)
    code, out, err = in_process([*COMMANDS[name], "--plain"], "utf-8", monkeypatch)
    assert code in (0, 1), err
    out = out.partition("--- ")[0]  # a patch is what it is
    assert not re.search(r"[█▏▎▍▌▋▊▉▁▂▃▄▅▆▇│├└─┼╌\t]|[#=~]{4}|\.{4}|\^{2}", out)
    records = [line for line in out.splitlines() if line]
    assert len(records) > 3
    assert not [line for line in records if line.startswith(" ")]
    assert not [line for line in records if re.search(r"\S {3,}\S", line) and " | " not in line]


@pytest.mark.parametrize(
    "command", ["check", "lint"]
)  # command_line/test_profile_json.py does it for profile, with its advice
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_keep_to_the_narrowest_width(
    path: Path, command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(path.parent)
    gates = ["--min-hit-rate", "0.9", "--no-advice", "--no-config"] if command == "check" else []
    code, out, err = in_process([command, path.name, "-n", "6", *gates], "utf-8", monkeypatch)
    assert code in (0, 1), err
    lines = [line for line in out.splitlines() if str(path) not in line]  # a command keeps it whole, however long it is
    assert max(map(cell_width, lines)) <= 60


# Interruptions and pipes, of every command that takes its time


@pytest.mark.parametrize(
    ("words", "partial"),
    [
        (["profile", "w.yaml", "--dry-run"], True),
        (["check", "w.yaml", "--min-hit-rate", "0.9"], True),
        (["lint", "w.yaml"], True),
        (["optimize", "w.yaml"], False),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_ctrl_c_ends_every_command_with_130(
    words: list[str], partial: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    interrupt_at(monkeypatch, 3)
    before = filecmp.dircmp(folder, folder).common_files
    code, out, err = in_process(words, "utf-8", monkeypatch)
    assert code == 130
    assert ("PARTIAL" in out) is partial
    assert "Traceback" not in out + err
    assert not re.search(r"\b(FAIL|PASS)\b", out)
    assert filecmp.dircmp(folder, folder).common_files == before
