"""The same inputs give the same bytes, whatever the hash seed, the locale, the time zone, the threads and the working folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import said

ROOT = Path(__file__).resolve().parents[2]
SURROUNDINGS = {
    "PYTHONHASHSEED": "4242",
    "LC_ALL": "C",
    "LANG": "C",
    "PYTHONUTF8": "0",
    "TZ": "Pacific/Kiritimati",
    "OMP_NUM_THREADS": "3",
    "RAYON_NUM_THREADS": "3",
    "TOKENIZERS_PARALLELISM": "true",
}


def outputs(folder: Path, tokenizer: str, surroundings: dict[str, str]) -> dict[str, str]:
    """In a process of its own."""
    folder.mkdir(parents=True)
    said.prepare(folder, tokenizer)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KVTOOL_", "GITHUB_", "LC_"))}
    plain = {
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "90",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.said", str(folder)],
        cwd=ROOT,
        env=kept | plain | surroundings,
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def plain(byte_spec: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = outputs(tmp_path_factory.mktemp("plain") / "w", byte_spec, {})
    assert {text[:2] for line, text in found.items() if " " in line} <= {"0\n", "1\n"}
    return found


def test_the_number_of_processes_does_not_show(plain: dict[str, str]) -> None:
    twice = [line for line in plain if "--jobs 2" in line and line.replace("--jobs 2", "--jobs 1") in plain]
    assert len(twice) == 2
    for line in twice:
        found = plain[line].replace("--jobs 2", "--jobs 1")
        assert found == plain[line.replace("--jobs 2", "--jobs 1")], line


def test_the_surroundings_do_not_show(plain: dict[str, str], byte_spec: str, tmp_path: Path) -> None:
    folder = tmp_path / ("another folder/" * 5) / "w"
    found = outputs(folder, byte_spec, SURROUNDINGS)
    assert found.keys() == plain.keys()
    for line, text in plain.items():
        assert found[line] == text, line
