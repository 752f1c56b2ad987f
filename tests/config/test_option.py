"""Declarations of options: what they become on the command line, and options that are made of values by name."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, is_dataclass
from typing import Annotated

import pytest

from kvtool.cli.app import run
from kvtool.cli.command import Command
from kvtool.cli.listed import COMMANDS
from kvtool.config.asked_run import RunOptions
from kvtool.config.declared import default_of, in_table
from kvtool.config.file_model import CheckOptions, Config, LintOptions
from kvtool.config.option import Argument, Option, check_values, made, only, walk
from kvtool.config.options.run_options import Reading, Serving
from kvtool.errors import KvtoolError
from kvtool.workload.yaml.schema import EngineOptions


@dataclass(frozen=True, kw_only=True)
class Some:
    """Options for this test."""

    name: Annotated[str, Argument("What.", "NAME")]
    serving: Annotated[Serving, only("max_num_seqs", "block_size")]
    reading: Annotated[Reading, only("groups")]


def test_a_command_takes_what_it_names_in_that_order() -> None:
    assert [each.name for each in walk(Some)] == ["name", "max_num_seqs", "block_size", "groups"]


def test_options_are_made_of_values_by_name() -> None:
    some = made(Some, name="x", block_size=4, groups=("a",))
    assert some == Some(name="x", serving=Serving(block_size=4), reading=Reading(groups=("a",)))
    assert some.serving.capacity is None


def test_a_name_that_it_does_not_take_is_an_error() -> None:
    for name in ["capacity", "blocksize", "serving"]:
        with pytest.raises(TypeError, match=f"Some has no options {name}"):
            made(Some, name="x", **{name: 3})


def test_a_run_measures_nothing_unless_asked() -> None:
    assert made(RunOptions, inputs=["a"]).measuring.seconds == 0
    assert made(RunOptions, inputs=["a"], measure_budget=3.0).measuring.seconds == 3
    assert made(RunOptions, inputs=["a"], measure_budget=3.0, dry_run=True).measuring.seconds == 0


def test_bounds_are_held() -> None:
    for option, value, said in [
        ("block_size", 0, "--block-size must be at least 1, not 0"),
        ("seed", -1, "--seed must not be negative: -1"),
        ("gpu_memory_utilization", 1.5, r"--gpu-memory-utilization must be in \(0, 1\], not 1.5"),
        ("measure_budget", -1.0, "--measure-budget is a number of seconds, not -1.0"),
        ("dtype", "int3", "unknown dtype `int3`"),
        ("device", "abacus", "unknown device `abacus`"),
    ]:
        with pytest.raises(KvtoolError, match=said):
            check_values(made(RunOptions, inputs=["a"], **{option: value}))


def test_the_help_says_the_default() -> None:
    assert Option("N.", default=3).default_words(None) == "3"
    assert Option("N.").default_words(30.0) == "30"
    assert Option("N.", words="all").default_words(None) == "all"
    assert Option("N.", words="none").default_words(None) == ""
    assert Option("N.", default=0.005, shown="{:.1%}").default_words(None) == "0.5%"
    assert Option("N.", flag="--a/--no-a").default_words(True) == "on"
    assert Option("N.").default_words(False) == ""


def test_flags_are_made_of_names() -> None:
    assert Option("").flags("no_config") == ("--no-config",)
    assert Option("", short="-n").flags("requests") == ("-n", "--requests")
    assert Option("", also="--print").flags("dry_run") == ("--dry-run", "--print")
    assert Option("", flag="--a/--no-a", short="-a", also="--b").long_flag("x") == "--a"


def test_every_key_of_the_configuration_is_an_option() -> None:
    assert set(in_table("engine")) == set(EngineOptions.model_fields)
    assert set(in_table("check")) == set(CheckOptions.model_fields)
    assert {*in_table("lint"), "inputs"} == set(LintOptions.model_fields), "inputs are an argument, as workloads are"
    assert set(in_table("")) >= set(Config.model_fields) - {
        "workloads",
        "engine",
        "gate",
        "check",
        "lint",
        "logs",
        "probe",
    }
    assert default_of("check", "max_drop", float) == 0.005


def test_commands_are_dataclasses_in_files_of_their_own() -> None:
    for listed in COMMANDS:
        from kvtool.cli.listed import Listed

        assert isinstance(listed, Listed)
        command = listed.load()
        assert issubclass(command, Command)
        assert is_dataclass(command)
        assert command.__doc__ is not None
        assert [each.command for each in COMMANDS if each.module == listed.module] == [listed.command]
        names = [each.name for each in walk(command)]
        assert len(names) == len(set(names))


def test_listing_commands_imports_none_of_them() -> None:
    program = (
        "import sys\nfrom kvtool.cli.app import run\nfrom kvtool.cli.listed import COMMANDS\nrun(['--help'])\nrun(['--version'])\n"
        "print([each.module for each in COMMANDS if each.module in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_error_names_the_variable_in_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    monkeypatch.setenv("KVTOOL_BLOCK_SIZE", "0")
    assert run(["init", str(tmp_path)]) == 2
    assert "KVTOOL_BLOCK_SIZE must be at least 1" in capsys.readouterr().err
