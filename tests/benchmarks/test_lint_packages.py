"""The benchmark of lint on judged packages counts what it says it counts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "benchmarks" / "data"
ONE = """\
packages:
  - name: made
    version: "1.0"
    sites:
      - [made/prompts.py, 1, 3, KV101 KV201, sure]
      - [made/prompts.py, 9, 9, KV102, likely]
    findings:
      - [made/prompts.py, 2, KV201, arguable, few values]
      - [made/other.py, 7, KV104, wrong, no prompt]
"""
PROMPT = '''\
import datetime


def prompt():
    """A docstring that is long enough to be taken for a prompt, but that no request ever holds: {now} and {then}."""
    return f"""Today is {datetime.datetime.now()}. You answer questions about the handbook that follows.
Rule 1: quote the paragraph that you use, and never more than one. Rule 2: say so where the handbook has no answer.
Rule 3: answer in the language of the question. Rule 4: never give a price that does not stand in the handbook."""
'''


@pytest.fixture(scope="module")
def judged() -> Iterator[ModuleType]:
    yield from _module("judged")


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    yield from _module("peer_source")


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    yield from _module("lint_packages")


def _module(name: str) -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module(name)
    sys.path.remove(str(ROOT / "benchmarks"))


def test_a_finding_is_worth_what_was_judged_and_else_what_it_finds(judged: ModuleType, tmp_path: Path) -> None:
    (package,) = judged.read_judged(_written(tmp_path, ONE))
    worth = {
        found: package.verdict(judged.Found(*found))
        for found in (
            ("made/prompts.py", 1, "KV101"),
            ("made/prompts.py", 2, "KV201"),
            ("made/prompts.py", 1, "KV104"),
            ("made/prompts.py", 4, "KV101"),
            ("made/other.py", 7, "KV104"),
            ("made/other.py", 8, "KV104"),
        )
    }
    assert list(worth.values()) == ["right", "arguable", "unjudged", "unjudged", "wrong", "unjudged"]


def test_what_nobody_judged_is_neither_right_nor_wrong(judged: ModuleType, tmp_path: Path) -> None:
    (package,) = judged.read_judged(_written(tmp_path, ONE))
    tally = judged.Tally()
    told = [
        judged.Found("made/prompts.py", 3, "KV101"),
        judged.Found("made/prompts.py", 3, "KV101"),
        judged.Found("made/prompts.py", 2, "KV201"),
        judged.Found("made/other.py", 7, "KV104"),
        judged.Found("made/new.py", 1, "KV101"),
    ]
    tally.add(package, told, package.sites)
    assert dict(tally.verdicts) == {"right": 2, "arguable": 1, "wrong": 1, "unjudged": 1}
    assert (tally.precision, tally.not_wrong, tally.recall) == (0.5, 0.75, 0.5)
    empty = judged.Tally()
    empty.add(package, [], package.sites)
    assert (empty.precision, empty.recall) == (None, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("wrong, no", "maybe, no", "maybe is no verdict"),
        ("1, 3, KV101", "3, 1, KV101", "site made/prompts.py:3-1"),
        ("likely", "perhaps", "perhaps"),
        ("[made/other.py, 7, KV104", "[made/prompts.py, 2, KV201", "stands there twice"),
    ],
)
def test_a_file_of_judgements_that_is_wrong_is_refused(
    judged: ModuleType, tmp_path: Path, before: str, after: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        judged.read_judged(_written(tmp_path, ONE.replace(before, after)))


def test_the_judgements_hold_enough_packages_and_places_below_them(judged: ModuleType) -> None:
    packages = judged.read_judged(DATA / "judged_packages.yaml")
    fresh = judged.read_judged(DATA / "eleventh_packages.yaml")
    assert len(packages) >= 15
    assert sum(package.held_out for package in packages) >= 6
    assert sum(len(package.verdicts) + len(package.sites) for package in packages) >= 150
    assert len({package.name for package in fresh}) == len(fresh) >= 50
    assert all(package.held_out for package in fresh)
    assert not {package.name for package in packages} & {package.name for package in fresh}
    for package in (*packages, *fresh):
        for site in package.sites:
            assert not site.file.startswith(("/", "..")), site
            assert all(code.startswith("KV") and len(code) == 5 for code in site.codes), site
        assert all(not file.startswith(("/", "..")) and line > 0 for file, line, _ in package.verdicts)


def test_strings_are_read_with_their_holes_and_without_docstrings(peers: ModuleType) -> None:
    ((line, text),) = peers.strings(PROMPT)
    assert line == 6
    assert text.startswith("Today is {datetime.datetime.now()}. You answer")


def test_a_package_is_linted_and_its_findings_stand_below_it(program: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "made-1.0"
    (folder / "made").mkdir(parents=True)
    (folder / "made" / "prompts.py").write_text(PROMPT, encoding="utf-8")
    findings, cpu = program.kvtool(folder)
    assert [(found.file, found.line, found.code) for found in findings] == [("made/prompts.py", 6, "KV101")]
    assert cpu > 0
    assert program.kloc(folder) == pytest.approx(0.008)


def test_each_set_has_its_own_tables(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["lint_packages.py", str(tmp_path)]
    for name in ("seen", "unseen"):
        folder = tmp_path / f"{name}-1.0" / "made"
        folder.mkdir(parents=True)
        (folder / "prompts.py").write_text(PROMPT, encoding="utf-8")
        judged = tmp_path / f"{name}.yaml"
        judged.write_text(ONE.replace("made\n", f"{name}\n").replace("1, 3", "1, 8"), encoding="utf-8")
        command += ["--judged", str(judged)]
    monkeypatch.setattr(sys, "argv", command)
    program.main()
    seen, unseen = capsys.readouterr().out.split("\nunseen\n")
    assert seen.count("\nseen\n") == 1
    for name, said in (("seen", seen), ("unseen", unseen)):
        assert "1 packages, 0 kLOC of Python, 2 sites; 0 packages held out" in said
        assert f"\n{name} 1.0 " in said
        assert "kvtool, held out" not in said


def _written(folder: Path, text: str) -> Path:
    path = folder / "judged.yaml"
    path.write_text(text, encoding="utf-8")
    return path
