"""RESULTS.md and the program that writes its tables belong together."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def runs() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("all")
    sys.path.remove(str(ROOT / "benchmarks"))
    del sys.modules["all"]


def test_each_run_has_its_section_and_each_section_its_run(runs: ModuleType) -> None:
    assert re.findall(r"<!-- run (\w+) -->", RESULTS) == [run.name for run in runs.RUNS]
    assert RESULTS.count("<!-- end -->") == len(runs.RUNS)


def test_each_section_is_of_the_command_that_would_write_it(runs: ModuleType) -> None:
    for run in runs.RUNS:
        section = RESULTS[RESULTS.index(f"<!-- run {run.name} -->") :].split("<!-- end -->", 1)[0]
        head = re.match(
            r"<!-- run \w+ -->\n`python (.+)`, \d{4}-\d\d-\d\d, commit [0-9a-f]+\+?, .+:\n\n```text\n", section
        )
        assert head is not None, run.name
        assert head[1] == run.command
        assert section.count("\n") > 5, "a run that printed nothing"


def test_each_program_is_there_and_in_the_list_of_benchmarks(runs: ModuleType) -> None:
    listed = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for run in runs.RUNS:
        if run.program:
            assert (ROOT / run.program).is_file()
            assert run.program in listed
        assert all((ROOT / path).exists() for path in run.code)


def test_a_section_is_written_between_its_marks_and_nowhere_else(runs: ModuleType) -> None:
    run = runs.Run("one", "benchmarks/startup.py")
    before = "# A\n<!-- run one -->\nold\n<!-- end -->\nwords\n<!-- run two -->\nkept\n<!-- end -->\n"
    after = runs.with_section(before, run, f"{runs.machine()}\n\nrow  \nrow 2\n", commit="abc1234", date="2026-01-02")
    assert after == (
        f"# A\n<!-- run one -->\n`python benchmarks/startup.py`, 2026-01-02, commit abc1234, {runs.machine()}:\n\n"
        "```text\nrow\nrow 2\n```\n<!-- end -->\nwords\n<!-- run two -->\nkept\n<!-- end -->\n"
    )
    assert runs.with_section(after, run, "other\n", commit="abc1234", date="2026-01-02").count("row") == 0
    with pytest.raises(ValueError, match="no section for the run three"):
        runs.with_section(before, runs.Run("three", "x.py"), "", commit="abc1234", date="2026-01-02")


def test_what_is_not_there_is_named(runs: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="--vllm-python"):
        runs.Run("a", "b.py --vllm-python VLLM").arguments(str(tmp_path), {"VLLM": ""})
    with pytest.raises(LookupError, match=r"DATA/\*\.jsonl"):
        runs.Run("a", "b.py DATA/*.jsonl").arguments(str(tmp_path), {})
    (tmp_path / "x.jsonl").touch()
    (tmp_path / "y.jsonl").touch()
    found = runs.Run("a", "b.py DATA/*.jsonl --seed 1 VLLM").arguments(str(tmp_path), {"VLLM": "python3"})
    assert found == ["b.py", f"{tmp_path}/x.jsonl", f"{tmp_path}/y.jsonl", "--seed", "1", "python3"]
