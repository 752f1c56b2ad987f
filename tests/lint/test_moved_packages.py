"""Packages that were moved into others, whose modules import each other by the old names still."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.lint.python.package import PythonFiles
from tests.files import write


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PythonFiles:
    monkeypatch.chdir(tmp_path)
    for name in ("quay", "quay/harbour", "quay/harbour/core", "quay/other"):
        write(f"{name}/__init__.py", "")
    write("quay/harbour/core/texts.py", "TIDE = 'low'\n")
    write("quay/harbour/wind.py", "WIND = 'west'\n")
    write("quay/harbour/core/json.py", "x = 1\n")
    return PythonFiles()


@pytest.mark.parametrize(
    ("importer", "name", "found"),
    [
        ("quay/harbour/core/run.py", "harbour.texts", "quay/harbour/core/texts.py"),
        ("quay/harbour/core/run.py", "harbour.wind", "quay/harbour/wind.py"),
        ("quay/harbour/core/run.py", "quay.harbour.wind", "quay/harbour/wind.py"),
        ("quay/other/run.py", "harbour.texts", None),
        ("quay/harbour/core/run.py", "sea.texts", None),
        ("quay/harbour/core/run.py", "simplejson.json", None),
    ],
)
def test_where_an_old_name_leads(package: PythonFiles, importer: str, name: str, found: str | None) -> None:
    write(importer, "")
    module = package.imported_module(package.given(importer, ""), name)
    assert (None if module is None else Path(module.path).relative_to(Path.cwd()).as_posix()) == found
