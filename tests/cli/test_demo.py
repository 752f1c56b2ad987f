"""`kvtool demo`: the main job in an empty folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.cli.commands import demo

EXAMPLES = Path(__file__).parents[2] / "workloads"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which commands run."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)
    return folder


def test_it_profiles_the_example_and_writes_nothing(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--dry-run", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "workloads/prompts/support.md:3:15: KV101" in said
    assert "\n  kvtool demo --write .\n  kvtool optimize workloads/support-bot.yaml" in said
    assert Path.cwd() == empty
    assert list(empty.iterdir()) == []


def test_json_is_the_report_alone_and_no_configuration_around_it_is_read(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty / "kvtool.toml").write_text("[gate]\nmin_hit_rate = 1.0\n[engine]\nblock_size = 3\n", encoding="utf-8")
    assert run(["demo", "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["config"]["input"] == "workloads/support-bot.yaml"
    assert document["config"]["block_size"] == 16


def test_the_examples_are_copied_once(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--write", "here"]) == 0
    assert capsys.readouterr().out.endswith("kvtool profile here/workloads/support-bot.yaml\n")
    copied = {path.relative_to(empty / "here" / "workloads") for path in (empty / "here").rglob("*") if path.is_file()}
    assert copied == {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*") if path.is_file()}
    assert run(["lint", "here/workloads/prompts/support-fixed.md"]) == 0
    capsys.readouterr()
    assert run(["demo", "--write", "here"]) == 2
    assert "here/workloads exists already" in capsys.readouterr().err


def test_examples_that_are_missing(
    empty: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_EXAMPLE", "workloads/none.yaml")
    assert run(["demo"]) == 2
    assert "the examples are missing" in capsys.readouterr().err


def test_a_bare_kvtool_points_to_it(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Start with: kvtool demo" in capsys.readouterr().out
