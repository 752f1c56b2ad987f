"""`kvtool compare-engines`, and `profile --rules all`, which is the same."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.results.documents.engine_table import EngineTable
from kvtool.results.schemas import find_schema
from tests.files import write
from tests.golden import GoldenFiles

ROOT = Path(__file__).resolve().parents[2]
CHAT = ROOT / "workloads" / "multi-turn-chat.yaml"
HEAD = "You answer questions about bicycles, in one sentence, and name the part that is meant. " * 6
TWO = f"""version: 1
groups:
  - {{name: talk, text: "{HEAD} {{{{ n }}}}?", requests: 4, vars: {{n: {{counter: 100}}}}}}
  - {{name: "a|b <i>", text: "{{{{ n }}}} {HEAD}", requests: 3, vars: {{n: {{counter: 7}}}}}}
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVTOOL_TOKENIZER", "")


def table(*arguments: str, capsys: pytest.CaptureFixture[str]) -> EngineTable:
    assert run(["compare-engines", *arguments, "--no-config", "--json"]) == 0
    return EngineTable.model_validate_json(capsys.readouterr().out)


@pytest.mark.parametrize("withheld", [0, 2, 5])
def test_requests_whose_text_is_withheld_are_not_compared(
    withheld: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of some only a word is there, or nothing: the rest is compared as if it were the log; where that is too little, nothing."""
    records = []
    for number in range(6):
        text = [{"role": "user", "content": f"{HEAD * 4}{number}"}]
        none = [] if number % 2 else [{"role": "user", "content": "[REDACTED]"}]
        usage: dict[str, object] = {"prompt_tokens": 500, "prompt_tokens_details": {"cached_tokens": 256}}
        usage = usage if number < 5 else {"prompt_tokens": 500}
        asked = {"model": "own", "messages": none if number < withheld else text}
        records.append({"request": asked, "response": {"id": f"r{number}", "usage": usage}})
    write("all.jsonl", "".join(json.dumps(each) + "\n" for each in records))
    write("rest.jsonl", "".join(json.dumps(each) + "\n" for each in records[withheld:]))
    if withheld > 3:
        assert run(["compare-engines", "all.jsonl", "--no-config"]) == 2
        assert f"the log lacks the text of {withheld} prompts, so no engine can be compared" in capsys.readouterr().err
        return
    found, rest = (table(name, capsys=capsys) for name in ("all.jsonl", "rest.jsonl"))
    assert (found.rows, found.requests) == (rest.rows, 6 - withheld)
    assert (found.reported_requests, found.reported_hit_rate) == (5 - withheld, 256 / 500)
    assert run(["compare-engines", "all.jsonl", "--no-config"]) == 0
    told = capsys.readouterr().out
    assert f"Reported for {5 - withheld} requests: hit rate 51.2%. All rates below are simulated." in told
    assert any("the log lacks the text" in note for note in found.notes) == bool(withheld)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_in_the_terminal(width: int, golden: GoldenFiles, capsys: pytest.CaptureFixture[str]) -> None:
    write("w.yaml", TWO)
    assert run(["compare-engines", "w.yaml", "--no-config", "--width", str(width)]) == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= width
    golden(f"console/compare-engines-{width}.txt", _without_version(told))


def test_the_table_as_files(golden: GoldenFiles, capsys: pytest.CaptureFixture[str]) -> None:
    write("w.yaml", TWO)
    assert run(["compare-engines", "w.yaml", "--no-config", "-o", "t.md", "-o", "t.html", "-o", "t.json"]) == 0
    told = capsys.readouterr()
    assert "Keep vLLM" in told.out or "vLLM reuses" in told.out
    assert "written: t.html (html)" in told.err
    golden("markdown/compare-engines.md", Path("t.md").read_text(encoding="utf-8"))
    page = Path("t.html").read_text(encoding="utf-8")
    assert "<i>" not in page.replace("<i></i>", "")
    assert "a|b &lt;i&gt;" in page
    assert not re.findall(r"(?:src|href)=\"(?!#)", page)
    document = json.loads(Path("t.json").read_text(encoding="utf-8"))
    assert set(find_schema("engines").document()["required"]) <= set(document)
    assert [group["name"] for group in document["groups"]] == ["talk", "a|b <i>"]


def test_all_rules_of_a_profile_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    write("w.yaml", TWO)
    assert run(["compare-engines", "w.yaml", "--no-config"]) == 0
    expected = capsys.readouterr().out
    assert run(["profile", "w.yaml", "--no-config", "--rules", "all", "--dry-run"]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("profile w.yaml --rules all --by session", "--by does not go with --rules all"),
        ("profile w.yaml --rules all --min-hit-rate 0.5", "--min-hit-rate does not go with --rules all"),
        ("profile w.yaml --rules all --concurrency 4", "--concurrency does not go with --rules all"),
        ("check w.yaml --rules all", "--rules all compares engines, and here one is followed"),
        ("compare-engines w.yaml -o t.xml", "junit is not available here"),
        ("compare-engines w.yaml --page-size 0", "--page-size must be at least 1"),
        ("compare-engines w.yaml --tokens-per-block 24", "blocks of 24 tokens"),
        ("compare-engines none.yaml", "none.yaml"),
        ("compare-engines t.jsonl", "a trace of block hashes has none"),
    ],
)
def test_what_cannot_be_compared(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("w.yaml", TWO)
    write("t.jsonl", json.dumps({"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}))
    assert run([*arguments.split(), "--no-config"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_log_of_a_hosted_model_may_come_through_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = "".join(
        json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": HEAD * 9 + str(at)}]}) + "\n"
        for at in range(4)
    )
    write("log.jsonl", log)
    read = table("log.jsonl", capsys=capsys)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log.encode())))
    assert table("-", capsys=capsys).rows == read.rows


def test_options_of_an_engine_change_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    write("w.yaml", TWO)
    found = table("w.yaml", "--page-size", "16", "--sliding-window", "64", "-b", "32", capsys=capsys)
    names = [(row.rules, " ".join(row.flags)) for row in found.rows]
    assert ("vllm", "--block-size 32") in names
    assert ("sglang", "--page-size 16") in names
    assert ("sglang", "--page-size 64") in names
    assert ("llamacpp", "--swa-full --sliding-window 64") in names
    by_name = {(row.rules, " ".join(row.flags)): row for row in found.rows}
    assert by_name["trtllm", ""].cached_tokens > by_name["vllm", "--block-size 32"].cached_tokens
    assert by_name["vllm", "--block-size 32"].cause == "block size"


def test_what_files_say_of_an_engine_is_in_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    write("w.yaml", TWO.replace("version: 1", "version: 1\nengine: {rules: sglang, page_size: 4, capacity: 64 tokens}"))
    found = table("w.yaml", capsys=capsys)
    assert found.capacity_tokens == 64
    (first, *_) = [row for row in found.rows if row.rules == "sglang"]
    assert first.settings["page_size"] == 4
    assert first.settings["max_total_tokens"] == 64
    assert all(row.refused_requests for row in found.rows if row.rules != "llamacpp")


def test_a_model_with_windows_has_them_where_the_rules_know_them(capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM by its groups, llama.cpp by its window; what the others leave out is told."""
    found = table(str(CHAT), "--model", "gpt-oss-20b", capsys=capsys)
    rows = {(row.rules, " ".join(row.flags)): row for row in found.rows}
    vllm, sglang = rows["vllm", ""], rows["sglang", "--sliding-window 128"]
    assert vllm.cached_tokens < rows["trtllm", ""].cached_tokens
    assert sglang.cached_tokens <= rows["trtllm", ""].cached_tokens
    assert vllm.cause == "window or state not kept"
    assert rows["llamacpp", "--sliding-window 128"].settings["window_layers"] == 12
    assert ("llamacpp", "--swa-full --sliding-window 128") in rows
    told = "gpt-oss-20b has sliding windows: kvtool assumes full attention in every layer for TensorRT-LLM"
    assert told in found.notes
    limited = table(str(CHAT), "--model", "gpt-oss-20b", "--capacity", "2000", capsys=capsys)
    assert not any(row.rules == "sglang" for row in limited.rows)
    assert any(note.startswith("left out: SGLang has a pool for each kind of layer") for note in limited.notes)
    arguments = ["profile", str(CHAT), "--no-config", "--dry-run", "--no-advice", "--json", "--model", "gpt-oss-20b"]
    assert run(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["totals"]["hit_tokens"] == vllm.cached_tokens
    assert run([*arguments, "--rules", "trtllm"]) == 0
    assert any("sliding windows" in note for note in json.loads(capsys.readouterr().out)["notes"])


def test_each_row_is_what_a_profile_finds(capsys: pytest.CaptureFixture[str]) -> None:
    """The table and the profile run the same rules over the same tokens."""
    found = table(str(CHAT), capsys=capsys)
    for row in found.rows:
        arguments = ["profile", str(CHAT), "--no-config", "--dry-run", "--no-advice", "--json", "--rules", row.rules]
        assert run([*arguments, *row.flags]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["totals"]["hit_tokens"] == row.cached_tokens
        fates = report["groups"][0]["fates"]
        assert {fate: fates[fate] for fate in row.lost} == row.lost
    assert found.next[:2] == ["profile", str(CHAT)]
    assert found.next[-2:] == ["--rules", "vllm"]


def _without_version(told: str) -> str:
    return re.sub(r"^kvtool \S+", "kvtool VERSION", told)
