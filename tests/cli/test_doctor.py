"""`kvtool doctor`: what it finds, and that nothing that is broken breaks it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.cli.commands.doctor import machine_items as machine
from kvtool.cli.commands.doctor.item import DoctorItem, shown_home
from kvtool.errors import NotAvailableError
from kvtool.text.terminal.console import cell_width
from kvtool.text.terminal.numbers import size
from tests.conftest import some
from tests.files import write
from tests.results.documents import redumped

DOCTOR = [sys.executable, "-m", "kvtool", "doctor"]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs it in an empty folder with an empty cache; gives the exit code and the items by name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def start(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
        code = run(["doctor", "--json", *arguments])
        out = capsys.readouterr().out
        assert redumped(out) == out
        document = json.loads(out)
        assert document["schema"] == "kvtool.doctor/1"
        assert document["ok"] is (code == 0)
        return code, {item["name"]: item for item in document["items"]}

    return start


@pytest.mark.engine
def test_a_machine_that_works(told: Any) -> None:
    code, items = told()
    assert code == 0
    assert items["torch"]["value"] == importlib.metadata.version("torch")
    assert items["cache"]["status"] == "missing"
    assert items["cache"]["help"] == "build it now: kvtool doctor --fix"
    assert items["file"]["value"] == "none (optional)"
    assert items["GPU"]["value"]


def test_a_cache_that_cannot_be_built_is_no_disaster(
    told: Any, byte_spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvtool.text.tokens.tokenizer_files.built_in_json", lambda: byte_spec.encode())
    monkeypatch.setattr("kvtool.text.tokens.tokenizer_files.keep", lambda *_: None)
    code, items = told("--fix")
    assert code == 0
    assert items["cache"]["status"] == "note"
    assert "is not writable" in items["cache"]["value"]

    def broken(name: str | None, offline: bool) -> None:
        raise ImportError("no such thing\nin transformers")

    monkeypatch.setattr("kvtool.text.tokens.tokenizer_files.find_tokenizer", broken)
    code, items = told("--fix")
    assert code == 4
    assert items["cache"]["value"] == "cannot be built: no such thing"


def test_fix_builds_the_cache(told: Any, byte_spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.text.tokens.tokenizer_files.built_in_json", lambda: byte_spec.encode())
    code, items = told("--fix")
    assert (code, items["cache"]["status"]) == (0, "ok")
    assert items["cache"]["value"].endswith(size(len(byte_spec.encode())))
    assert told()[1]["cache"]["status"] == "ok"


def test_no_vocabulary(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NotAvailableError("the built-in tokenizer is missing", hint="pip install mistral-common")

    monkeypatch.setattr("kvtool.text.tokens.tokenizer_files.built_in_files", missing)
    code, items = told()
    assert code == 4
    assert items["built in"]["status"] == "broken"
    assert items["built in"]["help"] == "pip install mistral-common"


def test_a_dependency_that_is_missing_or_of_another_version(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("rapidfuzz", "torch", "triton"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0" if name == "numpy" else found(name)

    monkeypatch.setattr(machine, "version", version)
    code, items = told()
    assert code == 4
    assert items["rapidfuzz"]["status"] == "broken"
    assert items["rapidfuzz"]["help"].startswith("pip install 'rapidfuzz")
    assert (items["torch"]["status"], items["torch"]["help"]) == ("missing", "pip install 'kvtool[engine]'")
    assert items["numpy"]["status"] == "note"
    assert items["numpy"]["value"].startswith("1.0; kvtool needs numpy>=")
    if "triton" in items:  # asked for on Linux only
        assert items["triton"]["status"] == "missing"
    assert "pytest" not in [item.name for item in machine.versions()]  # an extra


def test_a_configuration_that_cannot_be_read(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write("kvtool.toml", "[gate]\nhit_rte = 0.8\n")
    monkeypatch.setenv("KVTOOL_BLOCK_SIZE", "16")
    code, items = told()
    assert code == 0
    assert items["file"]["status"] == "note"
    assert "kvtool.toml:2:1" in items["file"]["value"]
    assert "hit_rate" in items["file"]["help"]
    assert items["variables"]["value"] == "KVTOOL_BLOCK_SIZE"


def test_what_is_optional(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda _: None)
    code, items = told()
    assert (code, items["git"]["status"]) == (0, "missing")


@pytest.mark.parametrize(
    ("variables", "arguments", "told_colour"),
    [
        ({}, [], "off (the output is not a terminal)"),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, [], "off (NO_COLOR is set)"),
        ({"FORCE_COLOR": "0"}, [], "off (FORCE_COLOR is set)"),
        ({"CLICOLOR_FORCE": "1"}, [], "on (CLICOLOR_FORCE is set)"),
        ({"NO_COLOR": "1"}, ["--color", "always"], "on (--color always)"),
    ],
)
def test_colour_and_why(
    variables: dict[str, str], arguments: list[str], told_colour: str, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert told(*arguments)[1]["colour"]["value"] == told_colour


def test_a_part_that_fails_keeps_no_other_from_being_told(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[DoctorItem]:
        raise RuntimeError("everything is different here")

    monkeypatch.setattr(machine, "configuration", broken)
    code, items = told()
    assert code == 0
    assert items["error"]["value"] == "everything is different here"
    assert items["encoding"]["status"] == "ok"


def test_the_home_folder_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert shown_home("/home/ada/.cache/x") == "~/.cache/x"
    assert shown_home("/home/adam/x") == "/home/adam/x"
    assert shown_home(Path("/home/ada")) == "~"


@pytest.mark.parametrize(
    "error", some(["RuntimeError('?')", "ImportError('libtorch.so: no such file')", "OSError('bad ELF')"], 1)
)
def test_torch_that_cannot_be_imported(error: str, tmp_path: Path) -> None:
    write(str(tmp_path / "torch" / "__init__.py"), f"raise {error}\n")
    done = subprocess.run(
        [*DOCTOR, "--plain"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr  # only real runs need it
    assert "Traceback" not in done.stdout + done.stderr
    assert "Device, real runs: NOTE a real run needs torch, which cannot be imported (" in done.stdout
    assert "help: pip install --force-reinstall 'kvtool[engine]'" in done.stdout


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_too_wide(columns: int, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("a-long-name-" * 8)))
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding=encoding, errors="strict"))
    assert run(["doctor"]) == 0
    lines = written.getvalue().decode(encoding).splitlines()
    assert max(cell_width(line) for line in lines) <= columns
    assert any(line.startswith("OK: kvtool works") for line in lines)
