"""CSV: its columns, its rows, and that no cell does anything."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from kvtool.accounting.ledger.fates import FATES
from kvtool.cli.app import run
from kvtool.report.formats.csv_table import COLUMNS, write
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from tests.conftest import Command
from tests.made_results import CASES, check, finding, group, report, result
from tests.report.html_results import full_result


def rows(made: CheckResult) -> list[dict[str, str]]:
    text = write(made, WriteOptions(show_text="full"))
    assert text.endswith("\r\n")
    assert "\n" not in text.replace("\r\n", "")
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_a_row_for_each_group_and_a_total() -> None:
    found = rows(full_result())
    assert list(found[0]) == [*COLUMNS, *(f"fate_{name}" for name in FATES)]
    assert [(one["workload"], one["row"], one["group"]) for one in found] == [
        ("support.yaml", "group", "support"),
        ("support.yaml", "group", "rag"),
        ("support.yaml", "total", ""),
    ]
    support, rag, total = found
    assert [support[name] for name in ("requests", "prompt_tokens", "hit_tokens", "lost_tokens", "hit_rate")] == [
        *("10", "1000", "400", "600", "0.4"),
    ]
    assert [support[name] for name in ("gate", "findings", "worst_code", "worst_severity")] == [
        "fail",
        "1",
        "KV101",
        "error",
    ]
    assert [rag[name] for name in ("gate", "findings", "worst_code", "worst_severity")] == [
        "pass",
        "1",
        "KV301",
        "warning",
    ]
    assert [total[name] for name in ("gate", "findings", "worst_code", "worst_severity")] == [
        "fail",
        "2",
        "KV101",
        "error",
    ]
    assert [one["predicted_ttft_p50"] for one in found] == ["0.04", "", "0.05"]
    for one in found:
        assert sum(int(one[f"fate_{name}"]) for name in FATES) == int(one["prompt_tokens"])
    for name in ("requests", "prompt_tokens", "hit_tokens", "reachable_tokens", "fate_blocked"):
        assert int(total[name]) == int(support[name]) + int(rag[name])


def test_every_result_has_one() -> None:
    for name in CASES:
        made = CASES[name]()
        found = rows(made)
        assert len(found) == sum(len(one.groups) + 1 for one in made.reports)
        assert all(one["partial"] == ("true" if name == "partial" else "false") for one in found)
        assert all(None not in one and None not in one.values() for one in found)


def test_silenced_findings_and_the_worst_of_those_kept() -> None:
    costly, severe, silenced = (
        finding("KV301", severity="warning", tokens_lost=900),
        finding(tokens_lost=1),
        finding(line=9),
    )
    made = report(findings=[costly, severe, silenced])
    [first, total] = rows(result("none", "", made, findings=[costly, severe], ignored=1))
    assert (first["findings"], first["worst_code"], total["findings"]) == ("2", "KV101", "2")


def test_no_cell_is_a_formula() -> None:
    for sign in ["=", "+", "-", "@", "  =", "\uff1d", "'="]:
        name = f'{sign}HYPERLINK("http://evil.example")'
        [first, total] = rows(result("none", "", report(group(name), workload=name)))
        assert first["group"] == first["workload"] == total["workload"] == f"'{name}"


def test_an_apostrophe_can_be_taken_away_again() -> None:
    names = ["'quoted'", "=1", "it's", "plain"]
    found = [one["group"] for one in rows(result("none", "", report(*map(group, names))))[:-1]]
    assert [one.removeprefix("'") for one in found] == names
    assert found[2:] == names[2:]


def test_delimiters_quotes_and_lines_in_names() -> None:
    text = write(result("none", "", report(group('a,"b"\r\nc\td\x1b[31m\u202e'))), WriteOptions())
    assert ',"a,""b""\\r\\nc\\td\\x1b[31m\\u202e",' in text
    assert len(text.splitlines()) == 3


def test_fates_of_a_newer_version_stand_last() -> None:
    made = report(group(fates={"hit": 400, "=new": 600}))
    head = write(result("none", "", made), WriteOptions()).split("\r\n", 1)[0]
    assert head.endswith(",fate_unique,fate_=new")
    assert rows(result("none", "", made))[0]["fate_=new"] == "600"


def test_gates_of_all_requests_count_for_the_total_alone() -> None:
    made = result("fail", "FAIL", report(), checks=(check(group=None),))
    assert [one["gate"] for one in rows(made)] == ["", "fail"]


def test_profile_writes_it_and_a_saved_result_gives_the_same(in_folder: Command) -> None:
    Path("w.yaml").write_text(
        "version: 1\ngroups:\n  - {name: a, requests: 3, messages: [{role: user, text: hello there you}]}\n",
        encoding="utf-8",
    )
    code, _, err = in_folder("profile", "w.yaml", "--dry-run", "-o", "r.csv", "-o", "r.json")
    assert code == 0, err
    data = Path("r.csv").read_bytes()
    assert data.count(b"\r\n") == 3
    assert run(["report", "r.json", "-o", "again.csv"]) == 0
    assert Path("again.csv").read_bytes() == data
    totals = json.loads(Path("r.json").read_text(encoding="utf-8"))["totals"]
    last = list(csv.DictReader(io.StringIO(data.decode(), newline="")))[-1]
    assert float(last["hit_rate"]) == totals["hit_rate"]
