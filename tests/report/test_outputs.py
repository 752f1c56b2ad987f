"""`-o [FORMAT=]PATH`: what is written where, told before any work is done, and written whole."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.errors import KvtoolError
from kvtool.report.outputs import check_outputs, in_root, output_root, parse_output, write_outputs
from kvtool.report.registry import FORMATS
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.files import load_result
from kvtool.results.wrap import lint_check
from tests.conftest import Command
from tests.files import write
from tests.interrupting import interrupt_at

SECRET = "Xyzzyplugh"
WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
groups:
  - name: support
    requests: 12
    segments:
      - {id: clock, text: "Now: {{ now }}\\n"}
      - {id: rules, file: prompts/rules.md}
    gate: {hit_rate: 0.5}
"""
RULES = "\n".join(f"Rule {number} of the {SECRET} handbook: answer in one sentence." for number in range(8))


@pytest.fixture
def kvtool(in_folder: Command) -> Command:
    """Runs kvtool in a folder with the workload `w.yaml`, whose gate fails."""
    write("w.yaml", WORKLOAD)
    write("prompts/rules.md", RULES)
    return in_folder


@pytest.fixture
def result() -> CheckResult:
    """An empty result: for tests that are about where it goes."""
    return lint_check([])


def test_the_format_is_named_or_follows_the_extension() -> None:
    for text, name, path in [
        ("r.json", "json", "r.json"), ("R.JSON", "json", "R.JSON"), ("a.md", "markdown", "a.md"),
        ("b/Ticket.md", "ticket", "b/Ticket.md"), ("ticket.json", "ticket-json", "ticket.json"),
        ("my-ticket.md", "markdown", "my-ticket.md"), ("a.markdown", "markdown", "a.markdown"),
        ("a.xml", "junit", "a.xml"), ("a.sarif", "sarif", "a.sarif"), ("a.sarif.json", "sarif", "a.sarif.json"),
        ("deep/er/a.htm", "html", "deep/er/a.htm"), ("a.svg", "svg", "a.svg"), ("a.txt", "text", "a.txt"),
        ("gitlab=a.json", "gitlab", "a.json"), ("json=a=b", "json", "a=b"), ("json=md=x", "json", "md=x"),
        ("./a=b.json", "json", "./a=b.json"), ("junit=-", "junit", "-"), ("github", "github", "-"),
        ("JSON", "json", "-"), ("md", "markdown", "-"), ("xml=report", "junit", "report"), ("sarif", "sarif", "-"),
    ]:  # fmt: skip
        output = parse_output(text)
        assert (output.format.name, output.path, output.to_stdout) == (name, path, path == "-")


def test_what_names_no_output_is_told_with_what_would() -> None:
    for text, message, hint in [
        ("report", "no format has this extension", "markdown (.md .markdown)"),
        ("report.pdf", "no format has this extension", "sarif (.sarif .sarif.json)"),
        (".json", "no format has this extension", "json"),
        ("folder.json/", "no format has this extension", "json"),
        ("jsn=a.json", "no format `jsn`", "did you mean json=a.json?"),
        ("zz=a", "no format `zz`", "formats: json"),
        ("json=", "names no file", "json=PATH"),
        ("", "names no file", "formats: json"),
        ("-", "needs a format", "-o json"),
    ]:
        with pytest.raises(KvtoolError) as caught:
            parse_output(text)
        assert message in caught.value.message
        assert hint in (caught.value.hint or "")


def test_a_command_may_have_fewer_formats() -> None:
    assert parse_output("a.md", ("json", "markdown")).format.name == "markdown"
    assert parse_output("ticket.md", ("json", "markdown")).format.name == "markdown"
    with pytest.raises(KvtoolError, match="html is not available here"):
        parse_output("a.html", ("json", "markdown"))
    with pytest.raises(KvtoolError, match="no format `html`"):
        parse_output("html=a", ("json", "markdown"))


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["a.json", "./a.json"], "is another output, too"),
        (["a.json", "gitlab=link.json"], "is another output, too"), (["json=w.yaml"], "is an input, too"),
        (["json=other.yaml"], "is an input, too"), (["text=hard.yaml"], "is an input, too"),
        (["prompts/rules.md"], "is a file of w.yaml, too"), (["events.json"], "is the file of --events, too"),
        (["json=folder"], "it is a directory"), (["json=folder/"], "it is a directory"),
        (["no-folder/a.json"], "No such file or directory"), (["json=a\0b"], "null character"),
        (["json", "md"], "both go to standard output"), (["json=round.json"], "links form a loop"),
    ],
)  # fmt: skip
def test_an_output_that_cannot_be_is_told_before_any_work(
    specs: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("w.yaml", WORKLOAD)
    write("prompts/rules.md", RULES)
    Path("folder").mkdir()
    Path("other.yaml").symlink_to("w.yaml")
    Path("link.json").symlink_to("a.json")
    Path("round.json").symlink_to("round.json")
    Path("hard.yaml").hardlink_to("w.yaml")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KvtoolError) as caught:
        check_outputs(specs, ["w.yaml", "-"], taken={"events.json": "the file of --events"})
    assert message in caught.value.message
    assert sorted(tmp_path.rglob("*")) == before


def test_json_on_standard_output_leaves_no_room_for_another(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="--json and --output md both go to standard output"):
        check_outputs(["md"], [], json=True)
    assert [output.path for output in check_outputs(["json", f"{tmp_path}/a.md"], [])] == ["-", f"{tmp_path}/a.md"]


def test_no_folder_is_no_reason_to_run(kvtool: Command) -> None:
    code, out, error = kvtool("profile", "w.yaml", "--dry-run", "-o", "gone/r.json")
    assert (code, out) == (2, "")
    assert "cannot write gone/r.json" in error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_write_protected(kvtool: Command) -> None:
    Path("locked").mkdir(mode=0o500)
    code, _, error = kvtool("profile", "w.yaml", "--dry-run", "-o", "locked/r.json")
    assert code == 2
    assert "cannot write locked/r.json: Permission denied" in error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_leaves_the_other_files_as_they_were(result: CheckResult, tmp_path: Path) -> None:
    kept = tmp_path / "a.json"
    kept.write_text("before")
    outputs = check_outputs([str(kept), "json=/dev/full"], [])
    with pytest.raises(KvtoolError, match="cannot write /dev/full: No space left on device"):
        write_outputs(result, outputs, WriteOptions())
    assert kept.read_text() == "before"
    assert list(tmp_path.iterdir()) == [kept]


def test_nothing_is_written_where_a_format_fails(
    result: CheckResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_result: CheckResult, _options: WriteOptions) -> str:
        raise KvtoolError("no")

    monkeypatch.setattr("kvtool.report.formats.text_format.write", fail)
    outputs = check_outputs([str(tmp_path / "a.json"), str(tmp_path / "a.txt")], [])
    with pytest.raises(KvtoolError):
        write_outputs(result, outputs, WriteOptions())
    assert list(tmp_path.iterdir()) == []


def test_files_are_utf_8_and_told_on_stderr(
    result: CheckResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = check_outputs(["é\x1b[1m.txt", "json=b"], [])
    write_outputs(result, outputs, WriteOptions(), ready={"text": "naïve \ud800\n", "json": "{}\n"})
    assert Path("é\x1b[1m.txt").read_bytes() == "naïve \\ud800\n".encode()
    assert capsys.readouterr() == ("", "written: \\xe9\\x1b[1m.txt (text)\nwritten: b (json)\n")
    write_outputs(result, outputs, WriteOptions(), quiet=True)
    assert capsys.readouterr().err == ""


def test_standard_output_gets_the_bytes_of_a_file(result: CheckResult, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    write_outputs(result, check_outputs(["json"], []), WriteOptions(), ready={"json": "é\n"})
    assert raw.getvalue() == "é\n".encode()


def test_two_runs_that_write_one_file_leave_one_of_them_whole(result: CheckResult, tmp_path: Path) -> None:
    outputs = check_outputs([str(tmp_path / "a.json")], [])
    first, second = (check_outputs([str(tmp_path / "a.json")], []) for _ in range(2))
    write_outputs(result, first, WriteOptions(), ready={"json": "long " * 9})
    write_outputs(result, second, WriteOptions(), ready={"json": "short"})
    assert (tmp_path / "a.json").read_text() == "short"
    assert [outputs[0].path] == [str(path) for path in tmp_path.iterdir()]


def test_which_files_of_a_saved_result_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("outside.md", "root/.git/config", "root/own/a.md"):
        write(str(tmp_path / name), "text")
    (tmp_path / "root" / "own" / "link.md").symlink_to("../../outside.md")
    monkeypatch.chdir(tmp_path / "root" / "own")
    assert in_root("a.md")
    assert in_root("../gone.md")
    for name in ("../../outside.md", "link.md", "../.git/config", "/etc/hostname", "a\0.md"):
        assert not in_root(name)


def test_paths_are_relative_to_the_git_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")  # a work tree of its own has a file there
    assert output_root() == str(tmp_path / "a")
    (tmp_path / "a" / ".git").unlink()
    (folder / ".git").mkdir()
    assert output_root() == str(folder)


@pytest.mark.parametrize("spec", ["github", "github=-", "github=notes"])
def test_the_step_summary_is_appended_to(
    spec: str,
    result: CheckResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    summary = tmp_path / "summary.md"
    summary.write_text("another step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    write_outputs(result, check_outputs([spec], []), WriteOptions())
    before, _, added = summary.read_text().partition("\n")
    assert before == "another step"
    assert bool(added.strip()) == (spec != "github=notes")


@pytest.mark.parametrize("kind", ["gone", "full"])
def test_a_step_summary_that_cannot_be_written_is_a_warning(
    kind: str,
    result: CheckResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "none" / "summary.md" if kind == "gone" else tmp_path / "summary.md"
    if kind == "full":
        path.write_bytes(b"x" * (1 << 20))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    write_outputs(result, check_outputs(["github"], []), WriteOptions())
    assert "kvtool: warning: the step summary was not written: " in capsys.readouterr().err
    assert kind == "gone" or path.stat().st_size == 1 << 20


def test_a_profile_is_written_beside_the_report(kvtool: Command) -> None:
    code, out, error = kvtool("profile", "w.yaml", "--dry-run", "-o", "r.json", "-o", "r.txt")
    assert code == 1, "the gate of the workload fails"
    assert out.startswith("kvtool ")
    assert error == "written: r.json (json)\nwritten: r.txt (text)\n"
    document = json.loads(Path("r.json").read_text())
    assert document["schema"] == "kvtool.report/1"
    assert document["views"] is not None
    assert "FAIL 1 gate" in Path("r.txt").read_text()
    assert kvtool("profile", "w.yaml", "--dry-run", "--json")[1] == Path("r.json").read_text()


def test_an_output_on_standard_output_takes_the_place_of_the_report(kvtool: Command) -> None:
    _, alone, _ = kvtool("profile", "w.yaml", "--dry-run", "--json")
    code, out, error = kvtool("profile", "w.yaml", "--dry-run", "-o", "json", "-o", "a.md")
    assert (code, error) == (1, "written: a.md (markdown)\n")
    assert out == alone


def test_every_format_takes_a_profile(kvtool: Command) -> None:
    specs = [spec for name in FORMATS for spec in ("-o", f"{name}=out.{name}")]
    code, _, error = kvtool("profile", "w.yaml", "--dry-run", *specs)
    assert code == 1
    assert error.splitlines() == [f"written: out.{name} ({name})" for name in FORMATS]
    for name in FORMATS:
        text = Path(f"out.{name}").read_text()
        assert text.endswith("\n")
        assert SECRET not in text, name


def test_an_output_is_none_of_the_files_that_the_workload_reads(kvtool: Command) -> None:
    code, _, error = kvtool("profile", "w.yaml", "--dry-run", "-o", "prompts/rules.md")
    assert code == 2
    assert "--output prompts/rules.md is a file of w.yaml, too" in error
    assert Path("prompts/rules.md").read_text() == RULES


def test_an_interrupted_run_writes_what_it_has(
    kvtool: Command, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    interrupt_at(monkeypatch, 5)
    code, out, error = kvtool("profile", "w.yaml", "--dry-run", "-o", "r.json")
    assert code == 130
    assert "PARTIAL: interrupted" in out
    assert "written: r.json (json)" in error
    result = load_result("r.json")
    assert result.verdict.outcome == "partial"
    assert result.reports[0].partial
    assert [check.status for check in result.reports[0].gates] == ["open"]


def test_lint_writes_its_findings(kvtool: Command) -> None:
    code, out, error = kvtool("lint", "w.yaml", "-o", "l.json", "-o", "l.sarif", "-o", "l.txt")
    assert code == 1
    assert "KV101" in out
    assert error.splitlines()[-3:] == ["written: l.json (json)", "written: l.sarif (sarif)", "written: l.txt (text)"]
    assert kvtool("lint", "w.yaml", "--json")[1] == Path("l.json").read_text()
    assert "KV101" in Path("l.sarif").read_text()
    assert SECRET not in Path("l.txt").read_text()
    code, _, error = kvtool("lint", "w.yaml", "--diff", "-o", "l.json")
    assert code == 2
    assert "--diff only prints, so --output writes nothing" in error


def test_the_report_says_which_formats_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "x.yaml", "-o", "report"]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in FORMATS)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_what_is_the_name_of_no_file_is_below_no_folder(name: str) -> None:
    assert not in_root(name)
    assert in_root("a\udcffb")  # a byte that is no UTF-8 may be in a name
