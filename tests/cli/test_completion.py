"""Shell completion: what the shells are told, in the protocol that typer's scripts speak."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.cli.app import run

KVTOOL = str(Path(sys.executable).parent / "kvtool")


Ask = Callable[[str, str], list[str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """What a shell would offer for a command line that ends at the cursor."""

    def offered(shell: str, line: str) -> list[str]:
        variables = {
            "_KVTOOL_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert run([]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return [line for line in said.out.splitlines() if line]

    return offered


def test_commands_and_options(ask: Ask) -> None:
    commands = ask("bash", "kvtool ")
    assert {"profile", "check", "lint", "optimize", "diff-prompts", "explain", "doctor"} <= set(commands)
    assert ask("bash", "kvtool prof") == ["profile"]
    assert "--no-enable-prefix-caching" in ask("bash", "kvtool profile --no-en")
    assert "--model" in ask("bash", "kvtool profile --m")
    assert ask("bash", "kvtool size --help-") == ["--help-all"]


def test_choices(ask: Ask) -> None:
    assert ask("bash", "kvtool profile --routing ") == ["round-robin", "random", "sticky", "prefix-aware"]
    assert ask("bash", "kvtool profile w.yaml --color a") == ["auto", "always"]


def test_names_of_ours(ask: Ask) -> None:
    assert "llama-3.1-8b" in ask("bash", "kvtool profile --model ll")
    assert "llama-3.1-8b" in ask("bash", "kvtool size ll")
    assert ask("bash", "kvtool profile --accelerator h1") == ["h100"]
    assert "KV101" in ask("bash", "kvtool explain kv1")
    assert "KV101,KV104" in ask("bash", "kvtool lint --select KV101,KV104")
    formats = ask("bash", "kvtool profile -o ")
    assert {"json", "markdown", "html", "sarif", "junit"} <= set(formats)
    assert ask("bash", "kvtool bench -o ") == []  # a file, which the shell itself completes


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_that_show_help(shell: str, ask: Ask) -> None:
    commands = ask(shell, "kvtool ")
    assert any("profile" in line and "token breakdown" in line for line in commands)
    options = ask(shell, "kvtool profile --block")
    assert len(options) == 1
    assert "Tokens per KV block" in options[0]
    assert "default" not in options[0]


def test_files_are_left_to_the_shell(ask: Ask) -> None:
    assert ask("bash", "kvtool profile workloads/sup") == []
    assert ask("zsh", "kvtool profile workloads/sup") == ["_files"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_the_script_works_in_a_real_bash() -> None:
    script = f"""
source <("{KVTOOL}" --show-completion)
COMP_WORDS=(kvtool expl); COMP_CWORD=1
_kvtool_completion "{KVTOOL}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "SHELL": "/bin/bash"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("explain\n", 0), done.stderr


def test_an_empty_variable_asks_for_nothing() -> None:
    done = subprocess.run(
        [KVTOOL, "--version"], env={**os.environ, "_KVTOOL_COMPLETE": ""}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("kvtool ")
