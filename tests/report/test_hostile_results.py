"""Results that somebody wrote by hand, each text of which is hostile, and lines of prompts with secrets in them."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.text import Text

from kvtool.cli.app import run
from kvtool.errors import KvtoolError, Place
from kvtool.report.formats.json_document import dump
from kvtool.report.registry import FORMATS
from kvtool.report.terminal.any_result import print_result
from kvtool.report.terminal.errors import print_error
from kvtool.report.terminal.marked_line import put_marked_line
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.files import load_result
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.terminal.console import cell_width, fold, make_console, put
from tests.files import write
from tests.made_results import failing, finding, report, result
from tests.report.html_results import full_result

UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
STYLE = re.compile(r"\x1b\[[0-9;]*m")
EVIL = (
    "::stop-commands::x\r\n::error::y\u2028##[error]z ##vso[task] \x1b[31m\x1b]8;;http://a\x07\x9b1m\u202e\x00]]>"
    "<script>alert(1)</script>\"'` [/INST] [bold] "
)
SECRET = "sk-proj-AbCdEf0123456789AbCdEf0123456789AbCdEf01"


def spoiled(made: CheckResult) -> CheckResult:
    """The same with every text in it hostile that may be any text; equal ones stay equal, so that it is still read."""
    document = json.loads(dump(made))
    numbers: dict[str, str] = {}

    def hostile(value: str) -> str:
        return numbers.setdefault(value, f"{EVIL}{len(numbers)}")

    def walk(node: Any) -> None:
        pairs = list(node.items() if isinstance(node, dict) else enumerate(node))
        for key, value in pairs:
            if isinstance(value, dict | list):
                walk(value)
            elif isinstance(value, str) and key not in ("schema", "severity", "status", "command"):
                node[key] = hostile(value)
                try:
                    CheckResult.model_validate(document)
                except ValidationError:
                    node[key] = value

    walk(document)
    assert len(numbers) > 20
    return CheckResult.model_validate(document)


@pytest.fixture(scope="module", params=[full_result, failing])
def hostile(request: pytest.FixtureRequest) -> CheckResult:
    make: Callable[[], CheckResult] = request.param
    return spoiled(make())


def assert_harmless(text: str) -> None:
    found = UNSAFE.search(text)
    assert found is None, ascii(text[max(found.start() - 80, 0) : found.end() + 20])
    assert not [line for line in re.split(r"[\n\r]", text) if line.lstrip().startswith("::")]
    assert not re.search(r"##(\[|vso\[)", text)


@pytest.mark.parametrize("options", [{"width": 80}, {"width": 40, "color": "always"}, {"width": 1}, {"plain": True}])
def test_nothing_of_it_reaches_the_terminal(hostile: CheckResult, options: dict[str, Any]) -> None:
    file = io.StringIO()
    print_result(make_console(file=file, **({"color": "never"} | options)), hostile, show_text="full", boundaries=True)
    assert_harmless(STYLE.sub("", file.getvalue()))


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "github"])
def test_nothing_of_it_is_in_a_file(hostile: CheckResult, name: str) -> None:
    text = FORMATS[name].write(hostile, WriteOptions(show_text="full"))
    assert_harmless(text.replace("\r\n", "\n") if name == "csv" else text)
    if name in ("json", "sarif", "gitlab"):
        json.loads(text)
    if name in ("junit", "svg"):
        ET.fromstring(text)
    assert "<script>alert" not in text or name in ("json", "sarif", "gitlab", "markdown", "text", "csv")


def test_json_says_the_same(hostile: CheckResult) -> None:
    assert CheckResult.model_validate_json(dump(hostile)) == hostile


def test_a_line_with_styles_is_made_harmless_and_keeps_them() -> None:
    file = io.StringIO()
    console = make_console(file=file, color="always", width=80)
    put(console, Text().append("a\x1b[2Jb", "red").append("##[x]\n").append("::y", "bold"))
    put(console, Text("  ::y", "bold"))
    assert STYLE.sub("", file.getvalue()) == "a\\x1b[2Jb# #[x]\\n: :y\n  : :y\n"
    assert "\x1b[31m[2Jb\x1b[0m# #[x]" in file.getvalue()


@given(
    text=st.text(st.sampled_from("ab  漢\u0301:#[\n\x1b\ufe0f❤"), max_size=60),
    width=st.integers(1, 30),
    indent=st.integers(0, 6),
)
def test_folded_lines_hold_their_width_and_begin_no_command(text: str, width: int, indent: int) -> None:
    lines = fold(text, width, indent=indent)
    assert not [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
    if width > 2 and not text.lstrip().startswith("::"):
        assert max(map(cell_width, lines)) <= width
    kept = re.sub(r"[ ]", "", "".join(lines))
    assert kept == re.sub(r"[ ]", "", "".join(fold(text, 10_000)))


def test_folding_long_wide_text_is_linear() -> None:
    """It took minutes for a name of this length."""
    assert sum(len(line) for line in fold("漢" * 50_000, 40)) == 50_000


@pytest.mark.parametrize("room", [-5, 0, 1])
def test_a_line_without_any_room(room: int) -> None:
    file = io.StringIO()
    put_marked_line(make_console(file=file, width=1, color="never"), "  3", "some text", 2, 3, first=0, room=room)
    assert file.getvalue().startswith("  3 | ")


# Secrets


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.mark.parametrize(("flags", "shown"), [([], "[redacted key]"), (["--show-text", "full"], SECRET)])
def test_secrets_are_blacked_out_in_the_terminal(
    flags: list[str], shown: str, here: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        "w.yaml",
        "version: 1\nvars: {now: {datetime: 1m}}\ngroups:\n  - name: g\n    requests: 12\n    segments:\n"
        f'      - {{id: clock, text: "Now {{{{ now }}}} key {SECRET}\\n"}}\n'
        '      - {id: rules, text: "Answer in one sentence, and in the language of the customer, whatever it may be."}\n',
    )
    arguments = ["w.yaml", "-q", "-t", bytes_json, "--width", "200", *flags]
    for command in (["profile", "--dry-run"], ["check", "--error-on", "error"], ["lint"]):
        assert run([*command, *arguments]) == (0 if command[0] == "profile" else 1)
        out = capsys.readouterr().out
        assert shown in out
        assert (SECRET in out) == (shown == SECRET)


def test_secrets_are_blacked_out_in_errors(capsys: pytest.CaptureFixture[str]) -> None:
    line = f'{{"prompt": "key {SECRET}" oops'
    print_error(KvtoolError("not JSON", place=Place("a.jsonl", 1, line.index("oops") + 1, line, 4)))
    assert capsys.readouterr().err == (
        f'error: a.jsonl:1:67: not JSON\n     1 | {{"prompt": "key [redacted key]" oops\n       | {" " * 32}^^^^\n'
    )


def test_a_saved_result_shows_no_file_from_elsewhere(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anybody may have written it: a line of a file that it names is shown only where the file is in the repository."""
    for folder in (here / "repo", here / "else"):
        folder.mkdir()
        write(str(folder / "a.txt"), f"my own secret line in {folder.name}\n")
    (here / "repo" / ".git").mkdir()
    (here / "repo" / "link.txt").symlink_to(here / "else" / "a.txt")
    paths = ("a.txt", "../else/a.txt", str(here / "else" / "a.txt"), "link.txt", "a\0.txt")
    found = [finding(path=path, line=1, column=4, width=3, message=f"in {n}") for n, path in enumerate(paths)]
    write(str(here / "r.json"), dump(result("none", "", report(findings=found), command="profile").reports[0]))
    monkeypatch.chdir(here / "repo")
    assert run(["report", "../r.json", "--width", "100"]) == 0
    out = capsys.readouterr().out
    assert out.count("secret line") == 1
    assert "   1 | my own secret line in repo" in out


# Files


def test_a_result_with_a_name_that_is_no_text_is_read_again(tmp_path: Path) -> None:
    """As of a file whose name is Latin-1."""
    made = result("none", "", report(workload="caf\udce9.yaml"))
    assert load_result(write(str(tmp_path / "r.json"), dump(made))) == made
    with pytest.raises(KvtoolError, match="not JSON"):
        load_result(write(str(tmp_path / "x.json"), '{"schema": "kvtool.report/1", "x": "\\ud800", "y": NaN}'))


def test_names_that_no_file_can_have(here: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KvtoolError, match="cannot write"):
        AtomicFile("a\0b")
    write("p.txt", "a prompt that is long enough")
    write("kvtool.toml", 'workloads = ["p.txt"]\n[check]\nbaseline = "a\\u0000b"\nrequire_baseline = true\n')
    for flags, said in (([], "there is no baseline a\\x00b"), (["--update-baseline"], "cannot write a\\x00b")):
        assert run(["check", "-q", "-t", bytes_json, *flags]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_where_nothing_can_be_told_the_exit_code_still_is_none_of_a_gate(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kvtool", "report", str(tmp_path / "none.json")], stderr=full, check=False
        )
    assert done.returncode == 2
