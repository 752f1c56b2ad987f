"""Golden files: what a command or a format writes, kept in `tests/golden` and compared character by character.

`golden("markdown/failing.md", text)` is an assertion; `pytest --update-golden` writes the files instead. A file that no test of a
whole run asked for is an error of that run (tests/test_golden.py), so none outlives its test; an update deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"
UPDATE = "--update-golden"
_MOST_LINES = 80


class GoldenFiles:
    """The golden files of a run of tests, and which of them tests have asked for."""

    def __init__(self, folder: Path = FOLDER, *, update: bool = False) -> None:
        self._folder = folder
        self.update = update
        self._asked: set[str] = set()

    def __call__(self, name: str, text: str) -> None:
        """Assert that the file of that name holds exactly `text`; with `update`, make it so."""
        path = self._path(name)
        self._asked.add(name)
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        if not path.is_file():
            raise AssertionError(f"no golden file {name}: look at the output, then run {_command()}\n\n{_cut(text)}")
        expected = path.read_bytes().decode()
        if expected != text:
            shown = "\n".join(islice(_diff(expected, text), _MOST_LINES))
            raise AssertionError(
                f"the golden file {name} says otherwise; if it should not, run {_command()}\n\n{shown}"
            )

    def unused(self) -> list[str]:
        """Files in the folder that nobody asked for, in order."""
        found = (path for path in self._folder.rglob("*") if path.is_file())
        return sorted({path.relative_to(self._folder).as_posix() for path in found} - self._asked)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files of the folder."""
        for name in names:
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        path = self._folder / name
        assert path.resolve().is_relative_to(self._folder.resolve()), f"{name!r} is not below the golden folder"
        return path


class GoldenRun:
    """The plugin that gives tests the fixture `golden`, and knows whether all of those that use it have passed."""

    def __init__(self, files: GoldenFiles) -> None:
        self._files = files
        self._deselected = False
        self._open: set[str] = set()

    @pytest.fixture
    def golden(self) -> GoldenFiles:
        """`golden("markdown/failing.md", text)` asserts that `tests/golden/markdown/failing.md` holds `text`."""
        return self._files

    @pytest.fixture
    def unused_golden_files(self, pytestconfig: pytest.Config) -> GoldenFiles:
        """The golden files once every test that uses them has passed; the test that asks is skipped in any other run."""
        folders = {(pytestconfig.rootpath / name).resolve() for name in pytestconfig.getini("testpaths")}
        asked = {(pytestconfig.invocation_params.dir / name).resolve() for name in pytestconfig.args}
        if self._deselected or not asked >= folders:
            pytest.skip("only a run of all tests shows which golden files are in use")
        if self._open:
            pytest.skip(f"{len(self._open)} tests that use golden files did not pass")
        return self._files

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._deselected |= bool(items)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """What is asked last runs last."""
        items.sort(key=lambda item: "unused_golden_files" in _fixtures(item))
        self._open = {item.nodeid for item in items if "golden" in _fixtures(item)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._open.discard(report.nodeid)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else ()


def _command() -> str:
    return f"`pytest {UPDATE}`"


def _cut(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(lines[:_MOST_LINES])


def _diff(expected: str, text: str) -> Iterable[str]:
    """Lines in Python's notation, so that spaces at their end and control characters can be seen."""
    return unified_diff(_shown(expected), _shown(text), "expected", "got", lineterm="")


def _shown(text: str) -> list[str]:
    return [ascii(line)[1:-1] if not line.isprintable() or line != line.rstrip() else line for line in text.split("\n")]
