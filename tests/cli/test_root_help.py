from __future__ import annotations

import re
import subprocess
import sys

import pytest
import typer

from kvtool.cli.app import run
from kvtool.cli.command import help_rows
from kvtool.cli.listed import COMMANDS, Listed
from kvtool.cli.root import app
from kvtool.config.option import Argument, Option, Panel, walk
from kvtool.version import __version__


def test_the_help_is_what_typer_would_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = typer.main.get_command(app)
    for columns in (1, 20, 49, *range(50, 105, 6), 200, 1_000):
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


def test_neither_imports_what_parses_command_lines() -> None:
    heavy = {"typer", "torch", "numpy", "pydantic", "rich", "yaml", "transformers", "tokenizers", "orjson", "jinja2"}
    program = (
        "import sys\nfrom kvtool.__main__ import main\nfrom kvtool.cli.app import run\n"
        "for given in ([], ['--help'], ['-h'], ['-V']):\n    run(given)\nsys.argv = ['kvtool', '--version']\n"
        f"try:\n    main()\nfinally:\n    print({heavy} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("\nset()\n")


# Commands

of_each_command = pytest.mark.parametrize("listed", COMMANDS, ids=lambda listed: listed.name)


def help_of(listed: Listed, flag: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([listed.name, flag]) == 0
    return capsys.readouterr().out


@of_each_command
def test_the_full_help_has_every_option_and_the_short_one_says_how_many_more(
    listed: Listed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, full = (help_of(listed, flag, capsys) for flag in ("--help", "--help-all"))
    for each in walk(listed.load()):
        if not isinstance(each.mark, Option) or each.mark.flag is None:
            continue
        for form in each.mark.flags(each.name):
            assert all(re.search(rf"{part}(?![\w-])", full) for part in form.split("/")), form
        assert not each.mark.variable or f"KVTOOL_{each.name.upper()}" in full
    *_, last = short.splitlines()
    listed_in = [len(re.findall(r"^  -", text, re.MULTILINE)) for text in (short, full)]
    assert last == f"--help-all shows {listed_in[1] - listed_in[0]} more options."
    assert max(map(len, (short + full).splitlines())) <= 80


@of_each_command
def test_every_option_has_a_panel_and_few_are_common(listed: Listed) -> None:
    rows = help_rows(listed.load())
    arguments = [each for each in walk(listed.load()) if isinstance(each.mark, Argument)]
    assert sum(row.panel is None for row in rows) == len(arguments)
    assert sum(row.panel is Panel.COMMON for row in rows) <= 15


def test_the_help_of_profile_fits_two_screens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (profile,) = (listed for listed in COMMANDS if listed.name == "profile")
    shown = help_of(profile, "--help", capsys)
    assert len(shown.splitlines()) <= 60
    assert "KVTOOL_" not in shown
    assert "--model-preset" not in shown


@of_each_command
def test_every_option_says_what_its_value_is(listed: Listed) -> None:
    """The help adds the default; an option begins with a noun or a verb, and is one short phrase."""
    for row in help_rows(listed.load()):
        assert "default" not in row.text
        assert len(row.text.split()) <= 20, row.text
        assert not re.match(
            r"(Of|What|Where|Whether|Who|Whose|How|When|Which|From|With|Also|Not|Only|The|A|For) ", row.text
        ), row.text


def test_commands_of_a_group_are_together() -> None:
    groups = [listed.group for listed in COMMANDS]
    assert list(dict.fromkeys(groups)) == ["Find", "Fix", "Gate", "Plan", "Live", "Reference"]
    assert groups == sorted(groups, key=list(dict.fromkeys(groups)).index)
