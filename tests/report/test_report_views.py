"""The views of a profile beside its totals: sums by key, causes with what they unlock, block sizes, and the next command."""

from __future__ import annotations

import json
import re
from collections import Counter
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.ledger.sums import OTHERS
from kvtool.cli.app import run
from kvtool.report.terminal.next_command import shorten_place
from kvtool.report.terminal.render import print_section
from kvtool.report.views import causes
from kvtool.report.views.boundaries import boundary_hint
from kvtool.report.views.sums import costliest
from kvtool.results.report import Cause, SumRow, Unlock
from kvtool.text.terminal.console import make_console
from tests import made_results
from tests.files import widest

BEHIND = ("blocked", "cosmetic", "seam")
SECRET = "Xyzzyplugh"
RULES = "\n".join(
    f"Rule {number}: say what rule {number} of the {SECRET} handbook says, and no more." for number in range(12)
)
PROMPT = "\n".join(
    [
        "You help.",
        "Now: {{ now }}",
        RULES,
        "Request id: {{ rid }}",
        RULES.replace("say", "tell"),
        "User: {{ user }}",
        "End.\n",
    ]
)
WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
  rid: {uuid: 4}
  user: {choice: [anna, bert, carl]}
groups:
  - name: acme
    tenant: acme
    requests: 12
    messages:
      - {role: system, file: first.md}
      - {role: user, text: "Hello {{ rid }}"}
  - name: globex
    tenant: globex
    sessions: {count: 3, turns: 3, output_tokens: 20}
    messages:
      - {role: system, file: second.md}
      - {role: user, text: "Hello {{ rid }}"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workload of two tenants whose prompts have three lines that vary; it is the working directory."""
    (tmp_path / "first.md").write_text(PROMPT, encoding="utf-8")
    (tmp_path / "second.md").write_text(PROMPT, encoding="utf-8")
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def profiled(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["profile", *arguments, "--dry-run", "--quiet"]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found = json.loads(profiled(capsys, *arguments, "--json"))
    assert isinstance(found, dict)
    return found


def test_sums_add_up_whatever_they_are_by(folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    keys: dict[str, set[str]] = {}
    for by in ("session", "tenant", "line"):
        found = document(capsys, "w.yaml", "--no-advice", "-t", bytes_json, "--by", by)
        assert found["sums"]["by"] == by
        rows = found["sums"]["rows"]
        keys[by] = {row["key"] for row in rows}
        for row in rows:
            assert sum(row["fates"].values()) == row["prompt_tokens"] == row["hit_tokens"] + row["lost_tokens"]
        for field in ("prompt_tokens", "hit_tokens"):
            assert sum(row[field] for row in rows) == found["totals"][field]
        fates: Counter[str] = Counter()
        for row in rows:
            fates.update(row["fates"])
        assert fates == Counter(found["fates"])
    assert keys["tenant"] == {"acme", "globex"}
    assert {"(no session)"} < keys["session"]
    assert len(keys["session"]) == 4
    assert {"first.md:2", "second.md:2"} <= keys["line"]


def test_no_sums_where_none_are_asked_for(folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "w.yaml", "--no-advice", "-t", bytes_json)["sums"] is None


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_of_sums_fits_and_says_what_it_sums_to(
    width: int, folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["w.yaml", "--no-advice", "-t", bytes_json, "--by", "line", "--width", str(width)]
    out = profiled(capsys, *arguments)
    assert widest(out) <= width
    told = re.search(r"Sums: ([\d,]+) tokens, ([\d,]+) lost", " ".join(out.split()))
    assert told is not None
    table = out[out.index("  Line ") : out.index("  Sums: ")].splitlines()[1:]
    assert len(table) == 21
    assert table[-1].startswith(f"  {OTHERS} ")
    figures = [[int(cell.replace(",", "")) for cell in re.findall(r" ([\d,]+)(?= )", f"{line} ")] for line in table]
    for column, total in ((-2, told[1]), (-1, told[2])):  # a row's whole numbers end with its tokens and the lost ones
        assert sum(row[column] for row in figures) == int(total.replace(",", ""))


def summed(key: str, requests: int, *, hit: int, unique: int) -> SumRow:
    return SumRow(
        key=key,
        requests=requests,
        prompt_tokens=hit + unique,
        hit_tokens=hit,
        hit_rate=hit / (hit + unique),
        lost_tokens=unique,
        fates={"hit": hit, "unique": unique},
    )


def test_rows_beyond_the_costliest_are_one() -> None:
    rows = [summed(f"s{n}", 1, hit=10, unique=90 - n) for n in range(5)]
    rows.insert(1, summed(OTHERS, 7, hit=0, unique=70))
    found = costliest(rows, 3)
    assert [row.key for row in found] == ["s0", "s1", "s2", OTHERS]
    assert (found[-1].requests, found[-1].prompt_tokens) == (9, 70 + 97 + 96)
    assert (found[-1].hit_tokens, found[-1].lost_tokens) == (20, 70 + 87 + 86)
    assert found[-1].fates == {"hit": 20, "unique": 70 + 87 + 86}
    assert [row.key for row in costliest(rows[:1], 3)] == ["s0"]


def test_a_place_keeps_its_line_number() -> None:
    assert shorten_place("a/very/long/path/prompt.md:1234", 14) == "a/very…md:1234"
    assert shorten_place("prompt.md:1234", 14) == "prompt.md:1234"
    assert shorten_place("abcdefghijklmnop", 8) == "abcde…op"


def test_causes_of_a_group_sum_to_what_is_behind_them(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = profiled(capsys, "w.yaml", "-t", bytes_json, "--json")
    assert SECRET not in text
    found = json.loads(text)
    for group in found["groups"]:
        rows = [row for row in found["causes"] if row["group"] == group["name"]]
        left = group["causes_left_out"]
        behind = sum(group["fates"].get(fate, 0) for fate in BEHIND)
        assert behind > 0
        for column in ("blame_tokens", "share_tokens"):
            assert sum(row[column] for row in rows) + left[column] == behind
        kept = [row["unlock"] for row in rows if row["unlock"] is not None]
        assert len(kept) >= 2
        assert [unlock["order"] for unlock in kept] == list(range(1, len(kept) + 1))
        assert kept[0]["before"] == group["hit_rate"]
        for one, next_one in pairwise(kept):
            assert one["after"] == next_one["before"] < next_one["after"]
        steps = [item for item in found["findings"] if item["group"] == group["name"] and item["rerun"]]
        assert kept[-1]["after"] == steps[0]["rerun"]["group_after"]
        assert [row["unlock"]["alone"] for row in rows if row["unlock"]] == [s["rerun"]["group_alone"] for s in steps]
    first = found["causes"][0]
    assert (first["path"], first["line"], first["code"], first["variable"]) == ("first.md", 2, "KV101", "now")
    assert (first["distinct_values"], first["requests"]) == (12, 11)
    assert (first["volatility_within"], first["volatility_across"]) == (0.0, 1.0)


def test_the_report_tells_causes_and_the_command_that_edits(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in (60, 120):
        out = profiled(capsys, "w.yaml", "-t", bytes_json, "--width", str(width))
        assert widest(out) <= width
        assert len(re.findall(r"^  Causes of [\d,]+ lost tokens in (?:acme|globex)", out, re.MULTILINE)) == 2
        assert re.search(r"^  first\.md:2 +KV101 +[\d,]+ +[\d,]+ +[\d.]+% +[\d.]+%", out, re.MULTILINE)
        proposed = out[out.index("  Next ") :].partition("\n\n")[0]
        command = " ".join(proposed.replace("\\\n", " ").split()).partition(": kvtool ")[2]
        assert command.startswith("optimize w.yaml --tokenizer ")
        assert re.search(r"--allow P2(,P3)?$", command)


def cause(**changes: Any) -> Cause:
    values: dict[str, Any] = {
        "group": "g", "code": "KV101", "kind": "timestamp", "name": "timestamp", "part": "messages[0] (system)",
        "path": "log.jsonl", "line": 3, "column": 9, "line_in_text": 4, "variable": None, "in_source": False, "blame_tokens": 600,
        "share_tokens": 500, "requests": 9, "distinct_values": 9, "volatility_within": 0.0, "volatility_across": 1.0,
        "confidence": 1.0, "unlock": None,
    }  # fmt: skip
    return Cause(**(values | changes))


def test_the_table_of_causes_fits_and_its_columns_sum() -> None:
    for width in [30, 50, 60, 80, 120]:
        name = "客户" * 20
        first = Unlock(order=1, tier="P2", before=0.01, after=0.2, alone=0.2, predicted=0.25)
        second = Unlock(order=2, tier="P2", before=0.2, after=0.9, alone=0.01, predicted=0.9)
        rows = (
            cause(group=name, unlock=first, path="a/long/path/of/a/prompt/file.md", in_source=True, line=1234),
            cause(group=name, blame_tokens=0, share_tokens=300, unlock=second, line_in_text=0),
            cause(group=name, blame_tokens=300, share_tokens=150, name="客户" * 10),
            cause(group=name, blame_tokens=90, share_tokens=10),
        )
        left_out = {"causes": 5, "blame_tokens": 10, "share_tokens": 40}
        tenant = made_results.group(name, tokens=10_000, hit=0, causes_left_out=left_out)
        stream = StringIO()
        section = causes.view(made_results.report(tenant, causes=list(rows)))
        assert section is not None
        print_section(make_console(file=stream, width=width, color="never"), section)
        out = stream.getvalue()
        assert widest(out) <= width
        assert "Causes of 1,000 lost tokens" in " ".join(out.split())
        assert ":1234" in out
        assert {"600", "500", "300", "150", "90.0%", "20.0%"} <= set(out.split())
        assert re.search(r"\(others\)\s+(?:first +)?100\s+(?:share +)?50\b", out)  # with the one below a hundredth


def test_causes_of_one_place_are_one_row_but_each_fix_has_its_own() -> None:
    fix = Unlock(order=1, tier="P2", before=0.0, after=0.5, alone=0.5, predicted=0.5)
    rows = [
        cause(code="KV104", name="name of a person", unlock=fix, share_tokens=400),
        cause(code="KV201", name="other text", blame_tokens=300, share_tokens=150),
        cause(code="KV102", name="UUID", blame_tokens=200, unlock=fix.model_copy(update={"order": 2})),
        cause(code="KV102", name="UUID", blame_tokens=150, line_in_text=9),
    ]
    section = causes.view(made_results.report(made_results.group("g", tokens=10_000, hit=0), causes=rows))
    assert section is not None
    (shown,) = section.tables
    assert [row[:2] for row in shown.rows] == [
        ("messages[0] (system), line 5 (name of a person; other text)", "KV104, KV201"),
        ("messages[0] (system), line 5 (UUID)", "KV102"),
        ("messages[0] (system), line 10", "KV102"),
    ]
    assert [row[4:6] for row in shown.rows] == [("900", "550"), ("200", "500"), ("150", "500")]


def test_one_cause_is_told_by_its_finding() -> None:
    section = causes.view(made_results.report(made_results.group("g"), causes=[cause()]))
    assert section is not None
    assert [table.only for table in section.tables] == ["pages"]


def test_fates_that_hashes_cannot_tell_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"timestamp": n, "input_length": 1024, "output_length": 4, "hash_ids": [1, n + 2]} for n in range(3)]
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    out = profiled(capsys, "trace.jsonl", "--by", "line")
    assert "Block hashes have no text" in out
    assert "(no source)" in out
    assert set(document(capsys, "trace.jsonl")["absent_fates"]) == {"blocked", "displaced", "seam", "cosmetic"}


def test_prompts_with_text_lack_no_fate(folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "w.yaml", "--no-advice", "-t", bytes_json)["absent_fates"] == []


def test_the_hint_on_block_sizes_is_given_where_it_matters() -> None:
    book = BoundaryBook(16)
    book.add("g", 1000, 0)
    assert boundary_hint([each.boundary() for each in book]) is None
    book.add("g", 1000, 520)  # 512 tokens hit; of 2,000 that is a quarter
    assert (
        boundary_hint([each.boundary() for each in book])
        == "With blocks of 528 tokens: 0.0%, not 25.6% (--boundaries)."
    )
    shared = BoundaryBook(16)
    shared.add("g", 100_000, 0)
    shared.add("g", 100_000, 99_000)  # 98,736 with blocks of 528, 98,992 with 16
    assert boundary_hint([each.boundary() for each in shared]) is None
    assert boundary_hint([]) is None


def test_the_boundary_view_stands_behind_the_findings(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = profiled(capsys, "w.yaml", "-t", bytes_json, "--boundaries")
    assert out.index("  Next ") < out.index("first.md:2:6: KV101") < out.index("Block boundaries of acme")
    assert "see --boundaries" not in out


def log_of_shuffled_tools(path: Path, *, dated: bool) -> None:
    """Twelve requests with six tools in six orders, behind a line that says the time or not."""
    names = ["find", "open", "close", "count", "merge", "split"]
    records = []
    for number in range(12):
        tools = [
            {"type": "function", "function": {"name": name, "description": f"{name} what is asked for. " * 4}}
            for name in (names[(number * 5 + at) % 6] for at in range(6))
        ]
        today = f"Today is 2026-03-{number + 1:02}, 10:{number:02}:00.\n" if dated else ""
        system = {"role": "system", "content": f"You help.\n{today}{RULES}"}
        records.append({"model": "m", "tools": tools, "messages": [system, {"role": "user", "content": "Why?"}]})
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def test_what_a_log_needs_is_told_and_not_edited(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_of_shuffled_tools(folder / "log.jsonl", dated=True)
    for width in (60, 120):
        out = profiled(capsys, "log.jsonl", "-t", bytes_json, "--width", str(width))
        assert widest(out) <= width
        assert re.search(r"blocked .*fix above", out)
        assert out.index(": KV101 error") < out.index("KV111 error")  # the fix of the one builds on that of the other
        assert re.search(r"Next Fix the code that writes .* in log\.jsonl:\d+\. See a request", " ".join(out.split()))
        assert re.search(r"^  tools +KV111 ", out, re.MULTILINE)
        assert re.search(r"^  messages\[0\].*, line 2 +KV101 ", out, re.MULTILINE)


def test_the_fate_that_a_fix_wins_back_says_so(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_of_shuffled_tools(folder / "log.jsonl", dated=False)
    out = profiled(capsys, "log.jsonl", "-t", bytes_json)
    assert re.search(r"differs in order or format .*fix above$", out, re.MULTILINE)
    assert not re.search(r"(hit|unique|blocked) .*fix above$", out, re.MULTILINE)
