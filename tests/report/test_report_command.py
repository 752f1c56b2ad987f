"""`kvtool report`: a saved result prints what its command printed, and becomes any format; text and SVG are of that report."""

from __future__ import annotations

import json
import re
import sys
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvtool.cli.app import run
from kvtool.measure.audit import AuditResult
from kvtool.report.formats.svg import svg_of
from kvtool.report.registry import FORMATS
from kvtool.report.terminal.profile import ShownProfile, print_profile
from kvtool.results.files import load_result
from kvtool.results.report import Report
from kvtool.results.run_times import Flip, Measured, MeasuredTpot, Quantiles
from kvtool.text.terminal.console import make_console, put, sanitize
from tests.conftest import Command
from tests.files import widest, write

WORKLOADS = Path(__file__).parents[2] / "workloads"
RULES = "\n".join(f"Rule {number} of the handbook: answer in one sentence, and be kind." for number in range(4))
WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
  rid: {uuid: 4}
groups:
  - name: "support [/INST]"
    tenant: acme
    requests: 6
    segments:
      - {id: clock, text: "Now: {{ now }}, id {{ rid }}\\n"}
      - {id: rules, file: rules.md}
    gate: {hit_rate: 0.4}
  - name: chat
    tenant: globex
    sessions: {count: 2, turns: 3, output_tokens: 20}
    messages:
      - {role: system, file: rules.md}
      - {role: user, text: "Hello {{ rid }}"}
"""
LOG = "".join(
    json.dumps({"messages": [{"role": "user", "content": f"{number % 5} o'clock. {RULES}"}]}) + "\n"
    for number in range(10)
)
HASHES = "".join(
    json.dumps({"timestamp": number, "input_length": 1500, "output_length": 2, "hash_ids": [1, 2, number % 2 + 3]})
    + "\n"
    for number in range(8)
)
RUNS = {
    "groups": ["w.yaml"],
    "by line": ["w.yaml", "--by", "line"],
    "by session": ["w.yaml", "--by", "session", "--concurrency", "4"],
    "small cache": ["w.yaml", "--capacity", "40", "--concurrency", "3"],
    "small cache in int8": ["w.yaml", "--capacity", "50MiB", "--kv-cache-dtype", "int8"],
    "replicas": ["w.yaml", "--replicas", "2"],
    "without advice": ["w.yaml", "--no-advice"],
    "without a cache": ["w.yaml", "--no-enable-prefix-caching"],
    "a trace": ["trace.jsonl"],
    "an example": ["workloads/few-shot.yaml", "-n", "8", "-b", "32"],
}
WIDTH = "100"


@pytest.fixture
def kvtool(in_folder: Command) -> Command:
    """Runs kvtool in a folder with `w.yaml`, a log and a trace."""
    write("w.yaml", WORKLOAD)
    write("rules.md", RULES)
    write("log.jsonl", LOG)
    write("trace.jsonl", HASHES)
    Path("workloads").symlink_to(WORKLOADS)
    return in_folder


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `kvtool report` prints."""
    assert run(["report", *arguments]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, bytes_json: str) -> str:
    """The profile of `w.yaml`, as JSON."""
    folder = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write("w.yaml", WORKLOAD)
        write("rules.md", RULES)
        assert run(["profile", "w.yaml", "--dry-run", "-q", "-t", bytes_json, "-o", "r.json", "-o", "md=m"]) == 1
    return (folder / "r.json").read_text()


@pytest.fixture
def result(saved: str, kvtool: Command) -> str:
    """That profile as the file `r.json`, beside what it is of."""
    return write("r.json", saved)


def without_next(text: str) -> list[str]:
    """All but the proposal: that is made of the command line, which a result does not have."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("  Next ")), None)
    if first is None:
        return lines
    return lines[:first] + lines[lines.index("", first) :]


def without_prompts(text: str) -> list[str]:
    """The same without lines of prompts as they were sent, which are not saved; those of files are read again."""
    lines = without_next(text)
    sent = [at for at, line in enumerate(lines) if line.startswith("   ... | ")]
    return [line for at, line in enumerate(lines) if at not in sent and at - 1 not in sent]


@pytest.mark.parametrize("name", list(RUNS))
def test_a_saved_profile_prints_as_it_was(name: str, kvtool: Command, capsys: pytest.CaptureFixture[str]) -> None:
    _, live, _ = kvtool("profile", *RUNS[name], "--dry-run", "--details", "--width", WIDTH, "-o", "r.json")
    assert without_next(shown(capsys, "r.json", "--details", "--width", WIDTH)) == without_prompts(live)


def test_boundaries_are_shown_where_they_are_asked_for(kvtool: Command, capsys: pytest.CaptureFixture[str]) -> None:
    _, live, _ = kvtool("profile", "w.yaml", "--dry-run", "--boundaries", "-o", "r.json")
    assert "Block boundaries of chat" in live
    assert without_next(shown(capsys, "r.json", "--boundaries")) == without_prompts(live)
    assert "Block boundaries" not in shown(capsys, "r.json")


def test_lines_of_logs_are_not_saved(kvtool: Command, capsys: pytest.CaptureFixture[str]) -> None:
    _, live, _ = kvtool("profile", "log.jsonl", "--dry-run", "-o", "r.json")
    excerpt = [line for line in without_next(live) if re.match(r" {3,6}(\.\.\.|was|now)? \| ", line)]
    assert any("o'clock" in line for line in excerpt)
    again = without_next(shown(capsys, "r.json"))
    assert again == [line for line in without_next(live) if line not in excerpt]


def test_lines_of_files_are_read_again_where_they_still_fit(result: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = '   10 |       - {id: clock, text: "Now: {{ now }}, id {{ rid }}\\n"}'
    assert line in shown(capsys, "r.json")
    assert line not in shown(capsys, "r.json", "--show-text", "none")
    text = Path("w.yaml").read_text()
    write("w.yaml", text.replace("{{ now }}, id {{ rid }}", "{{ then }}"))
    again = shown(capsys, "r.json")
    assert "10 | " not in again
    assert "w.yaml:10:" in again, "the finding itself stays"
    write("w.yaml", "version: 1\n")
    assert shown(capsys, "r.json") == again
    Path("w.yaml").unlink()
    assert shown(capsys, "r.json").replace("kvtool profile WORKLOAD", "kvtool profile w.yaml") == again


def test_a_path_in_a_result_is_no_way_to_hang(result: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(Path("r.json").read_text())
    for finding in document["findings"]:
        finding |= {"path": "/dev/zero", "in_source": True, "line": 1, "column": 1, "message": "\x1b[2J"}
    write("r.json", json.dumps(document))
    out = shown(capsys, "r.json")
    assert "\x1b" not in out
    assert "/dev/zero:1:1: KV" in out


def test_what_to_do_next_is_a_command_of_today(kvtool: Command, capsys: pytest.CaptureFixture[str]) -> None:
    kvtool("profile", "workloads/few-shot.yaml", "--dry-run", "-n", "4", "-b", "32", "-s", "3", "-o", "r.json")
    lines = shown(capsys, "r.json", "--width", "300").splitlines()
    words = next(line for line in lines if line.startswith("  kvtool ")).split()
    assert words[:3] == ["kvtool", "profile", "workloads/few-shot.yaml"]
    assert words[words.index("--block-size") + 1] == "32"
    assert words[words.index("--seed") + 1] == "3"


def test_every_format_is_made_of_a_saved_profile(kvtool: Command, capsys: pytest.CaptureFixture[str]) -> None:
    live = [spec for name in FORMATS for spec in ("-o", f"{name}=live.{name}")]
    kvtool("profile", "w.yaml", "--dry-run", *live)
    again = [spec for name in FORMATS for spec in ("-o", f"{name}=again.{name}")]
    assert run(["report", "live.json", *again, "-q"]) == 0
    capsys.readouterr()
    for name in set(FORMATS) - {"text", "svg", "html", "markdown"}:  # these propose what to do next
        assert Path(f"again.{name}").read_text() == Path(f"live.{name}").read_text(), name
    texts = [Path(f"{which}.text").read_text() for which in ("live", "again")]
    assert without_next(texts[0]) == without_next(texts[1])


def test_json_of_a_result_is_the_result(
    kvtool: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kvtool("profile", "w.yaml", "--dry-run", "--per-request", "-o", "r.json")
    saved = Path("r.json").read_text()
    assert shown(capsys, "r.json", "--json") == saved
    monkeypatch.setattr(sys, "stdin", StringIO(saved))
    assert shown(capsys, "-", "-o", "json") == saved


def test_lint_and_check_results_have_their_own_views(kvtool: Command, capsys: pytest.CaptureFixture[str]) -> None:
    kvtool("lint", "w.yaml", "-o", "l.json")
    assert "KV101" in shown(capsys, "l.json")
    _, live, _ = kvtool("check", "w.yaml", "-o", "c.json")
    again = shown(capsys, "c.json")
    assert again.splitlines()[0] == live.splitlines()[0]
    assert [line for line in again.splitlines() if line.startswith(("FAIL", "PASS"))] == [
        line for line in live.splitlines() if line.startswith(("FAIL", "PASS"))
    ]


def test_a_result_is_not_its_own_output(result: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "r.json", "-o", "r.json"]) == 2
    assert "--output r.json is an input, too" in capsys.readouterr().err
    assert run(["report", "w.yaml"]) == 2
    assert "w.yaml: this is not JSON" in capsys.readouterr().err


def test_measured_times_come_back(result: str) -> None:
    """Of runs on a device nothing is repeated here: the figures are made up, and the views must agree on them."""
    (report,) = load_result("r.json").reports
    flip = Flip(request="a\x1b", position=4, expected=1, actual=2, margin=0.25, difference=None)
    audit = AuditResult(3, 9, 0.5, [flip], 0.125, 4.0, 16.0)
    measured = Measured(
        on=Quantiles(p50=0.01, p90=0.02, p99=0.03),
        off=Quantiles(p50=0.1, p90=0.2, p99=0.3),
        requests=5,
        prompt_tokens=900,
        hit_tokens=300,
        complete=False,
        reason="the budget is spent",
        exact=True,
        audit=audit.logits(),
        kv_cache_dtype_error=AuditResult(1, 2, float("inf"), [], float("inf"), 1.0, 0.0).logits(),
        device="cpu",
        kernels="torch",
        shortfall="no Triton",
        too_large_requests=2,
    )
    assert report.decode is not None
    tpot = MeasuredTpot(requests=4, tokens_mean=100.5, steps=32, flat=0.02, prefix_aware=None)
    decode = report.decode.model_copy(update={"tpot": report.decode.tpot.model_copy(update={"measured": tpot})})
    fresh = report.model_copy(
        update={
            "ttft": report.ttft.model_copy(update={"measured": measured}),
            "decode": decode,
            "config": report.config | {"device": "cpu", "decode_attention": "auto"},
        }
    )
    again = Report.model_validate_json(fresh.to_json())
    printed = []
    for each in (fresh, again):
        file = StringIO()
        print_profile(make_console(file=file, color="never", width=90), each, ShownProfile(details=True))
        printed.append(file.getvalue())
    assert printed[0] == printed[1]
    for told in ("measured here, cache on", "2 requests left out", "Changed in a\\x1b", "Reuse audit", "auto is flat"):
        assert told in printed[0]


def test_text_is_the_report_at_the_width_that_was_asked_for(result: str, capsys: pytest.CaptureFixture[str]) -> None:
    for width in (60, 120):
        text = shown(capsys, "r.json", "-o", "text", "--width", str(width))
        assert widest(text) in range(width - 30, width + 1)
        assert "{{ now }}" not in text, "a file quotes no prompt"


SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_shows_the_report_and_loads_nothing(result: str, capsys: pytest.CaptureFixture[str]) -> None:
    svg = shown(capsys, "r.json", "-o", "svg", "--color", "never")
    root = ET.fromstring(svg)
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == "kvtool profile w.yaml"
    assert re.findall(r"https?://[^\"' )]+", svg) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@import|@font-face|url\(|<script|<image|href", svg)
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert "support [/INST]" in texts
    assert "{{ now }}" not in svg
    assert shown(capsys, "r.json", "-o", "svg") == svg
    printed = shown(capsys, "r.json", "-o", "text")
    for word in set(re.findall(r"[A-Za-z0-9.%]+", printed)):
        assert any(word in text for text in texts), word


def test_a_picture_has_styles_columns_and_bars() -> None:
    def show(console: object) -> None:
        put(console, "ab  cd", "bold red")  # type: ignore[arg-type]
        put(console, "日本 x", "dim")  # type: ignore[arg-type]
        put(console, sanitize("<&>\x1b]]>"))  # type: ignore[arg-type]
        put(console, "██▌", "green")  # type: ignore[arg-type]

    root = ET.fromstring(svg_of(show, 'a <b> & "c" \x1b', 20))
    found = {text.text: text.attrib for text in root.iter(f"{SVG}text")}
    assert 'a <b> & "c" \\x1b' in found
    assert (found["ab"]["class"], found["cd"]["class"]) == ("red bold", "red bold")
    left, right = (float(found[word]["x"]) for word in ("ab", "cd"))
    assert right - left == pytest.approx(4 * 8.4, abs=0.1)
    wide = found["日本"]
    assert (wide["class"], float(wide["textLength"])) == ("dim", pytest.approx(4 * 8.4, abs=0.1))
    assert "<&>\\x1b]]>" in found
    [bar] = [rect.attrib for rect in root.iter(f"{SVG}rect") if rect.attrib["class"] == "green"]
    assert float(bar["width"]) == pytest.approx(2.5 * 8.4, abs=0.1)
    assert svg_of(show, "one", 20) != svg_of(show, "two", 20)
