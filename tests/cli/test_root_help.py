from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from kvtool.cli.app import run
from kvtool.cli.root import app
from kvtool.version import __version__


def test_the_help_is_what_typer_would_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = typer.main.get_command(app)
    for columns in (1, 20, 49, *range(50, 105), 200, 1_000):
        monkeypatch.setenv("COLUMNS", str(columns))
        expected = command.make_context("kvtool", [], resilient_parsing=True).get_help() + "\n"
        for arguments in ([], ["-h"], ["--help"], ["--debug", "--help"]):
            assert run(arguments) == 0
            assert capsys.readouterr().out == expected


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_alone_and_before_a_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([flag], [flag, "lint"]):
        assert run(arguments) == 0
        assert capsys.readouterr().out == f"kvtool {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["--version"], ["-V"]])
def test_neither_imports_what_parses_command_lines(arguments: list[str]) -> None:
    program = f"import sys\nfrom kvtool.cli.app import run\nrun({arguments})\nprint('typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("\nFalse\n")
