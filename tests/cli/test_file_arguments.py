"""A file in the working folder is no option of kvtool, whatever its name is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.cli.app import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a file that says so where it is run."""
    (tmp_path / "evil.py").write_text("open('marker', 'w').write('x')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["--probe=python evil.py", "-oevil.md", "--undo=evil.md", "-q"])
def test_a_file_that_a_hook_passes_on_is_no_option(name: str, folder: Path, capsys: Capture) -> None:
    (folder / name).write_text("x = 1\n", encoding="utf-8")
    before = set(folder.iterdir())
    assert run(["lint", "--quiet", "--templates", "evil.py", name]) == 2
    assert f"`{name}` is an option and the name of a file" in capsys.readouterr().err
    assert set(folder.iterdir()) == before


def test_a_link_that_leads_nowhere_is_a_file_too(folder: Path, capsys: Capture) -> None:
    (folder / "--json").symlink_to("nowhere")
    assert run(["lint", "evil.py", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_behind_two_dashes_and_with_its_folder_it_is_an_input(folder: Path, capsys: Capture) -> None:
    (folder / "--json.py").write_text("x = 1\n", encoding="utf-8")
    assert run(["lint", "--quiet", "--", "--json.py"]) == 0
    assert run(["lint", "--quiet", "./--json.py"]) == 0
    assert capsys.readouterr().err == ""


def test_options_that_are_no_files_stay_options(folder: Path, capsys: Capture) -> None:
    (folder / "-").write_text("x = 1\n", encoding="utf-8")
    assert run(["lint", "--json", "evil.py"]) == 0
    assert '"kvtool.lint/1"' in capsys.readouterr().out
