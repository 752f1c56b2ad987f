"""What what-if finds as files: golden ones, those of the command, and saved documents that are read and shown again."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.report.formats.what_if_formats import FORMATTERS
from kvtool.report.views.plans.what_if_rows import moment
from kvtool.report.write_options import WriteOptions
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import per_second
from tests.golden import GoldenFiles
from tests.report.what_if_documents import CASES, capacity, document, row

EXTENSIONS = {"json": "json", "markdown": "md", "html": "html", "csv": "csv", "text": "txt", "svg": "svg"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(made: WhatIfDocument, name: str = "plan.json") -> str:
    made.save(name)
    return name


def test_golden(golden: GoldenFiles) -> None:
    golden("what-if/policies.md", FORMATTERS["markdown"](CASES["policies"](), WriteOptions()))


def test_every_format_of_every_case() -> None:
    for case in CASES:
        for name in FORMATTERS:
            text = FORMATTERS[name](CASES[case](), WriteOptions(width=60))
            assert text.endswith("\n")
            assert "traffic.jsonl" in text or name in ("csv", "svg")


def test_a_table_for_programs_has_every_field() -> None:
    for case in CASES:
        made = CASES[case]()
        table = list(csv.DictReader(StringIO(FORMATTERS["csv"](made, WriteOptions()))))
        assert len(table) == len(made.rows)
        for cells, one in zip(table, made.rows, strict=True):
            told = {key: value for key, value in cells.items() if value}
            assert SweepRow.model_validate(told) == one


def test_no_cell_is_a_formula() -> None:
    text = FORMATTERS["csv"](document([row("capacity", 0.1, command="=HYPERLINK(1)", capacity=1)]), WriteOptions())
    assert "'=HYPERLINK(1)" in text


def test_the_command_writes_files(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.jsonl").write_text(
        "".join(json.dumps({"input_length": 1024, "output_length": 1, "hash_ids": [1, at]}) + "\n" for at in range(9))
    )
    files = [f"plan.{extension}" for extension in EXTENSIONS.values()]
    command = ["what-if", "t.jsonl", "--sweep", "capacity"]
    assert run([*command, *(word for file in files for word in ("-o", file))]) == 0
    said = capsys.readouterr()
    assert "95% of the maximum needs" in said.out
    for file in files:
        assert f"written: {file}" in said.err
        assert Path(file).stat().st_size
    assert run([*command, "--json"]) == 0
    assert capsys.readouterr().out == Path("plan.json").read_text()
    assert run([*command, "-o", "md"]) == 0
    assert capsys.readouterr().out == Path("plan.md").read_text()
    assert run(["what-if", "t.jsonl", "-o", "plan.sarif"]) == 2
    assert run(["what-if", "t.jsonl", "-o", "t.jsonl"]) == 2
    assert run(["what-if", "t.jsonl", "--json", "-o", "md"]) == 2


@pytest.mark.parametrize("case", CASES)
def test_a_saved_plan_is_shown_again(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = CASES[case]()
    path = saved(made)
    assert run(["report", path, "--json"]) == 0
    assert capsys.readouterr().out == made.to_json()
    assert run(["report", path, "--width", "80", "--color", "never"]) == 0
    assert capsys.readouterr().out == FORMATTERS["text"](made, WriteOptions(width=80))
    assert run(["report", path, "-o", "plan.html", "-o", "plan.csv", "-q"]) == 0
    capsys.readouterr()
    for name in ("html", "csv"):
        assert Path(f"plan.{name}").read_bytes().decode() == FORMATTERS[name](made, WriteOptions())
    assert run(["report", path, "-o", "csv"]) == 0
    assert capsys.readouterr().out.replace("\r\n", "\n") == Path("plan.csv").read_bytes().decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "kvtool.what-if/2"}, "written by a newer kvtool"),
        ({"schema": "kvtool.what-iff/1"}, "did you mean `kvtool.what-if/1`"),
        ({"rows": [{"axis": "capacity"}]}, "/rows/0/"),
        ({"references": -1}, "/references"),
        ({"reachable_hit_rate": 1.5}, "/reachable_hit_rate"),
    ],
)
def test_what_is_no_plan_is_said(change: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.json").write_text(json.dumps(capacity().data() | change))
    assert run(["report", "plan.json"]) == 2
    assert said in capsys.readouterr().err


def test_formats_that_a_plan_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", saved(capacity()), "-o", "plan.xml"]) == 2
    assert "junit is not available here" in capsys.readouterr().err
    assert not Path("plan.xml").exists()


def test_commands_that_need_a_result_say_what_a_plan_is(capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(capacity())
    assert run(["compare", path, path]) == 2
    assert "a result of kvtool what-if" in capsys.readouterr().err


def test_moments() -> None:
    for seconds, text in [
        (14.31, "14.3 s"),
        (1.634, "1.63 s"),
        (0.85, "850 ms"),
        (0.0085, "8.50 ms"),
        (4725.0, "4,725 s"),
    ]:
        assert moment(seconds) == text


@pytest.mark.parametrize(("amount", "text"), [(14e9, "14 GB/s"), (2.5e7, "25 MB/s"), (1e15, "1,000,000 GB/s")])
def test_bandwidths(amount: float, text: str) -> None:
    assert per_second(amount) == text
