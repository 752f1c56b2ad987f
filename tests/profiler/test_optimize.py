"""The command `kvtool optimize`: what it edits, how it proves it, what it writes, and what it never loses."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from kvtool.fixes.edits import apply
from kvtool.fixes.edits.apply import FileEdit
from kvtool.profiler.optimize.breakpoint_plan import plan_breakpoints
from kvtool.profiler.optimize.write_edits import write_edits
from kvtool.profiler.run.workload_runs import WorkloadRuns
from kvtool.text.terminal.console import cell_width
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn
from tests.files import write

RULES = "Answer only from the handbook, quote the line that you took it from, and be kind.\n"
WORKLOAD = """\
version: 1   # a comment
vars:
  now: {datetime: 1m}
  rid: {uuid: 4}
  n: {counter: 1}
groups:
  - name: desk     # two messages
    requests: 10
    messages:
      - {role: system, file: prompts/desk.md}
      - {role: user, text: "Question {{ n }}?"}
"""
PROMPT = "# Desk\r\nNow: {{ now }}\r\n" + RULES * 4 + "Request {{ rid }}.\n" + RULES * 4
TOOLS = """\
  - name: api
    requests: 10
    messages:
      - {role: system, text: "{{ tools }}"}
      - {role: user, text: "Question {{ n }}?"}
"""


@dataclass(frozen=True)
class Change:
    path: str
    before: str
    after: str


Optimize = Callable[..., tuple[int, str, str]]


@pytest.fixture
def optimize(in_folder: Optimize) -> Optimize:
    """Runs `kvtool optimize`."""
    return partial(in_folder, "optimize")


@pytest.fixture
def desk(optimize: Optimize) -> str:
    """A workload whose prompt has a clock before its rules and a request id between them."""
    write("prompts/desk.md", PROMPT)
    return write("w.yaml", WORKLOAD)


def document(optimize: Optimize, *arguments: str) -> dict[str, Any]:
    code, out, _ = optimize(*arguments, "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def contents(folder: str = ".") -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def patched(command: str) -> None:
    if shutil.which("patch") is None:
        pytest.skip("there is no `patch` here")
    subprocess.run(command, shell=True, check=True, capture_output=True)


def test_moves_need_consent_and_are_told_with_what_they_win(optimize: Optimize, desk: str) -> None:
    before = contents()
    code, out, _ = optimize(desk, "--width", "200")
    assert code == 0
    assert "Needs consent: --allow P2" in out
    assert "P2 KV101 desk: prompts/desk.md:2:6: move its line behind the shared text" in out
    assert "(measured by running again)" in out
    assert "Nothing to change in the tiers P0, P1" in out
    assert f"kvtool optimize {desk} --width 200 -t" in out
    assert out.rstrip().endswith("--allow P2")
    assert contents() == before


def test_each_step_is_run_on_the_edited_files(optimize: Optimize, desk: str) -> None:
    found = document(optimize, desk, "--allow", "P2")
    assert [(step["code"], step["line"], step["edited"]) for step in found["steps"]] == [
        ("KV101", 2, True),
        ("KV102", 7, True),
    ]
    first, second = (step["files_hit_rate"] for step in found["steps"])
    assert first["before"] == found["hit_rate"]["before"] < first["after"] == second["before"] < second["after"]
    assert second["after"] == found["hit_rate"]["after"]
    assert found["files"] == ["prompts/desk.md"]
    assert found["undo"] is None
    assert "{{" not in json.dumps(found)


def test_written_files_hit_what_was_promised_and_a_second_run_finds_nothing(optimize: Optimize, desk: str) -> None:
    first = document(optimize, desk, "--allow", "P2", "--write")
    second = document(optimize, desk, "--allow", "P2")
    assert second["hit_rate"]["before"] == first["hit_rate"]["after"] == second["hit_rate"]["after"]
    assert second["files"] == [] == second["steps"]
    assert document(optimize, desk)["needs_consent"] == []


def test_the_rest_of_a_file_stays_to_the_byte(optimize: Optimize, desk: str) -> None:
    optimize(desk, "--allow", "P2", "--write")
    lines = Path("prompts/desk.md").read_bytes().splitlines()
    assert lines[0] == b"# Desk"
    assert lines[1:9] == [RULES.strip().encode()] * 8
    assert lines[9:] == [b"Now: {{ now }}", b"Request {{ rid }}."]
    assert Path(desk).read_text() == WORKLOAD


@pytest.mark.parametrize("name", ["support-bot", "volatile-first", "few-shot"])
def test_the_examples_twice(optimize: Optimize, name: str) -> None:
    """The second run finds nothing more to do in the files that the first one wrote; each run says the same twice."""
    folder = Path(__file__).parents[2] / "workloads"
    shutil.copytree(folder, "workloads")
    path = f"workloads/{name}.yaml"
    arguments = (path, "--unsafe-fixes", "-n", "12")
    said = optimize(*arguments)
    assert optimize(*arguments) == said
    first = document(optimize, *arguments, "--write")
    assert bool(first["files"]) == (name != "few-shot")
    second = document(optimize, *arguments)
    assert second["files"] == []
    assert second["hit_rate"]["before"] == first["hit_rate"]["after"]


def test_two_variables_of_one_line_win_what_was_promised(optimize: Optimize, desk: str) -> None:
    write("prompts/desk.md", "Now: {{ now }}. Request: {{ rid }}.\n" + RULES * 4)
    code, out, _ = optimize(desk, "--allow", "P2", "--json")
    assert code == 0
    step = json.loads(out)["steps"][0]
    assert step["hit_rate"]["predicted"] == pytest.approx(step["files_hit_rate"]["after"], abs=0.05)


@pytest.mark.parametrize("hash_seed", ["0", "7"])
def test_the_same_with_any_hash_seed(desk: str, hash_seed: str, bytes_json: str, optimize: Optimize) -> None:
    expected = optimize(desk, "--allow", "P2", "--width", "80")[1]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "kvtool", "optimize", desk, "--allow", "P2", "--width", "80", "-t", bytes_json]
    assert subprocess.run(command, env=env, capture_output=True, check=True).stdout.decode() == expected


def test_undo_restores_each_byte(optimize: Optimize, desk: str) -> None:
    before = contents()
    code, out, _ = optimize(desk, "--allow", "P2", "--write")
    assert code == 0
    assert "1 file Undo with:\n  patch -p1 < .kvtool/w.yaml.undo.patch\n" in out
    assert contents() != before
    patched("patch -p1 < .kvtool/w.yaml.undo.patch")
    after = contents()
    assert after.pop(".kvtool/.gitignore") == b"*\n"
    assert after.pop(".kvtool/w.yaml.undo.patch")
    assert after == before


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "{end}", "{end}{end}"])
def test_written_files_keep_their_line_ends_and_their_last(
    optimize: Optimize, desk: str, end: str, mark: str, last: str
) -> None:
    lines = ["# Desk", "Now: {{ now }}", "\tindented by a tab", "  and by spaces  ", *[RULES.rstrip("\n")] * 4]
    before = (mark + end.join(lines) + last.format(end=end)).encode()
    write("prompts/desk.md", before)
    write(desk, WORKLOAD.partition("      - {role: system")[0] + "      - {role: user, file: prompts/desk.md}\n")
    assert optimize(desk, "--allow", "P2", "--write")[0] == 0
    after = Path("prompts/desk.md").read_bytes()
    assert after == (mark + end.join([lines[0], *lines[2:], lines[1]]) + last.format(end=end)).encode()
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", ".kvtool/w.yaml.undo.patch"],
        check=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path.cwd().parent)},
    )
    assert Path("prompts/desk.md").read_bytes() == before


def test_the_patch_lies_beside_the_configuration_or_at_the_root_of_the_repository(
    optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents()
    for number, (made, want) in enumerate(((".git", "."), ("service/kvtool.toml", "service"))):
        for path, data in before.items():
            write(f"service/workloads/{path}", data)
        if made == ".git":
            Path(made).mkdir()
        else:
            write(made, "seed = 0\n")
        code, out, _ = optimize("service/workloads/w.yaml", "--allow", "P2", "--write")
        assert code == 0
        folder = "" if want == "." else f"-d {want} "
        command = f"patch -p1 {folder}< {Path(want, '.kvtool/w.yaml.undo.patch')}"
        assert command in " ".join(out.split()), number
        patched(command)
        assert {path: Path("service/workloads", path).read_bytes() for path in before} == before


@pytest.mark.parametrize("kind", ["file", "link"])
def test_another_thing_of_the_folder_s_name(optimize: Optimize, desk: str, kind: str) -> None:
    Path("elsewhere").mkdir()
    if kind == "file":
        write(".kvtool", "mine")
    else:
        Path(".kvtool").symlink_to("elsewhere")
    refused(optimize, "cannot make the folder .kvtool for the undo patch", desk, "--allow", "P2", "--write")


def test_a_write_that_fails_leaves_no_folder(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.profiler.optimize import write_edits as writing

    def failing(files: object) -> None:
        raise KvtoolError("the disk is full")

    monkeypatch.setattr(writing, "write_files", failing)
    refused(optimize, "the disk is full", desk, "--allow", "P2", "--write")
    assert not Path(".kvtool").exists()


def test_a_prompt_that_is_write_protected(optimize: Optimize, desk: str) -> None:
    Path("prompts/desk.md").chmod(0o444)
    refused(optimize, "cannot write prompts/desk.md: it is write-protected", desk, "--allow", "P2", "--write")
    assert not Path(".kvtool").exists()


def test_a_prompt_that_changed_meanwhile(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.profiler.optimize import write_edits as writing

    original = writing.write_edits

    def later(files: Sequence[Change], undo: str | None) -> None:
        with Path("prompts/desk.md").open("ab") as file:
            file.write(b"written by another hand\n")
        original(files, undo)

    monkeypatch.setattr(writing, "write_edits", later)
    code, _, err = optimize(desk, "--allow", "P2", "--write")
    assert code == 2
    assert "`prompts/desk.md` has changed since it was read" in err
    assert Path("prompts/desk.md").read_text(encoding="utf-8").endswith("written by another hand\n")
    assert not Path(".kvtool").exists()


@pytest.mark.parametrize(
    ("one", "other", "mode"),
    [(0o644, 0o755, 0o644), (0o644, 0o600, 0o600), (0o600, 0o640, 0o600), (0o604, 0o640, 0o600)],
)
def test_a_patch_is_as_private_as_what_it_quotes(one: int, other: int, mode: int, optimize: Optimize) -> None:
    modes = {"a.md": one, "b.md": other}
    for name, own in modes.items():
        Path(write(name, "old\n")).chmod(own)
    before = os.umask(0o022)
    try:
        write_edits([Change(name, "old\n", "new\n") for name in modes], "back.patch")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("back.patch").stat().st_mode) == mode
    assert {name: stat.S_IMODE(Path(name).stat().st_mode) for name in modes} == modes, "edited files keep theirs"
    assert {Path(name).read_text(encoding="utf-8") for name in modes} == {"new\n"}


def test_undo_of_files_that_are_elsewhere_and_behind_a_link(
    optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("prompts/desk.md").rename("real.md")
    Path("prompts/desk.md").symlink_to("../real.md")
    before = contents()
    Path("elsewhere dir").mkdir()
    monkeypatch.chdir("elsewhere dir")
    code, out, _ = optimize("../w.yaml", "--allow", "P2", "--write", "--undo", "u.patch")
    assert code == 0
    assert Path("../prompts/desk.md").is_symlink()
    command = next(line for line in out.splitlines() if line.startswith("  patch"))
    assert command == "  patch -p1 -d .. < u.patch"
    patched(command)
    monkeypatch.chdir("..")
    assert Path("prompts/desk.md").is_symlink()
    assert {**before, "elsewhere dir/u.patch": b""} == {**contents(), "elsewhere dir/u.patch": b""}


def test_an_earlier_undo_patch_is_never_overwritten(optimize: Optimize, desk: str) -> None:
    write(".kvtool/w.yaml.undo.patch", "of yesterday")
    code, out, _ = optimize(desk, "--allow", "P2", "--write")
    assert code == 0
    assert ".kvtool/w.yaml.undo.2.patch" in out
    assert Path(".kvtool/w.yaml.undo.patch").read_text() == "of yesterday"


def refused(optimize: Optimize, message: str, *arguments: str, files: Iterable[str] = (".",)) -> None:
    before = [contents(folder) for folder in files]
    code, out, err = optimize(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert [contents(folder) for folder in files] == before


def test_what_the_command_line_may_not_say(optimize: Optimize, desk: str) -> None:
    Path("folder").mkdir()
    refused(optimize, "unknown proof tier `P9`", desk, "--allow", "P9")
    refused(optimize, "--undo names the patch of what --write writes", desk, "--undo", "u.patch")
    refused(optimize, "--undo folder is a directory", desk, "--write", "--undo", "folder")
    refused(optimize, "--undo w.yaml is an input", desk, "--write", "--undo", desk)
    refused(
        optimize, "--undo prompts/desk.md exists already", desk, "--allow", "P2", "--write", "--undo", "prompts/desk.md"
    )
    refused(optimize, "there is no folder `nowhere`", desk, "--write", "--undo", "nowhere/u.patch")
    refused(optimize, "--undo needs a file", desk, "--write", "--undo", "-")
    refused(optimize, "--breakpoints is a number from 1 to 4", desk, "--breakpoints", "5")
    refused(optimize, "-o writes a log in another order", desk, "-o", "x.yaml")
    refused(optimize, "no such file", "missing.yaml")


def chat_log(path: str, count: int = 12, *, last: str = "\n") -> list[bytes]:
    """Requests that go round three long documents, so that a small cache has always just lost the next one."""
    lines = []
    for number in range(count):
        document = f"Document {number % 3}. " * 40
        messages = [{"role": "system", "content": document}, {"role": "user", "content": f"Question {number}?"}]
        lines.append(json.dumps({"messages": messages}).encode() + (b"\n" if number + 1 < count else last.encode()))
    write(path, b"".join(lines))
    return lines


def test_logs_are_told_and_not_edited(optimize: Optimize) -> None:
    records = [
        {"messages": [{"role": "system", "content": f"Now: 2026-01-01T10:{n:02}:00Z\n" + RULES * 6}]} for n in range(12)
    ]
    write("a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    before = contents()
    code, out, _ = optimize("a.jsonl", "--allow", "P2", "--width", "200")
    assert code == 0
    assert "not edited: logs are records of what was sent: change what writes them" in out
    assert "Nothing was written: no file can be edited" in out
    assert contents() == before
    refused(optimize, "logs are records of what was sent", "a.jsonl", "--write")


def test_prompts_are_told_and_not_edited(optimize: Optimize) -> None:
    names = [write(f"p{n}.txt", f"Now: 2026-01-01T10:{n:02}:00Z\n" + RULES * 6) for n in range(6)]
    found = document(optimize, *names, "--allow", "P2")
    assert found["steps"]
    assert {step["reason"] for step in found["steps"]} == {
        "prompts are edited as files of a workload: name them in one"
    }
    refused(optimize, "--write edits a workload file", *names, "--write")


def test_standard_input_is_told_and_never_written(
    optimize: Optimize, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chat_log("a.jsonl")
    for arguments, code in (((), 0), (("--write",), 2), (("-o", "b.jsonl"), 2)):
        with Path("a.jsonl").open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert optimize("-", *arguments)[0] == code
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_the_order_of_a_batch(optimize: Optimize) -> None:
    lines = chat_log("a.jsonl", last="")
    found = document(optimize, "a.jsonl", "--capacity", "60", "-o", "b.jsonl")
    rates = found["request_order"]["hit_rate"]
    assert rates["before"] < 0.1 < 0.5 < rates["after"]
    assert found["output"] == "b.jsonl"
    ended = [line if line.endswith(b"\n") else line + b"\n" for line in lines]
    order = [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    assert Path("b.jsonl").read_bytes() == b"".join(ended[at] for at in order)
    assert b"".join(lines) == Path("a.jsonl").read_bytes()
    again = document(optimize, "b.jsonl", "--capacity", "60")
    assert again["request_order"] is None
    assert again["hit_rate"]["before"] == rates["after"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_batch_in_another_order_is_as_private_as_the_log(mode: int, optimize: Optimize) -> None:
    chat_log("a.jsonl", last="")
    Path("a.jsonl").chmod(mode)
    before = os.umask(0o022)
    try:
        document(optimize, "a.jsonl", "--capacity", "60", "-o", "b.jsonl")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("b.jsonl").stat().st_mode) == mode


def test_no_order_without_a_limit_nor_for_sessions(optimize: Optimize) -> None:
    chat_log("a.jsonl")
    code, _, err = optimize("a.jsonl", "-o", "b.jsonl")
    assert (code, "a cache without --capacity forgets nothing; b.jsonl was not written" in err) == (0, True)
    turns = [json.dumps({**json.loads(line), "session_id": "s"}) for line in Path("a.jsonl").read_text().splitlines()]
    write("s.jsonl", "\n".join(turns) + "\n")
    assert document(optimize, "s.jsonl", "--capacity", "60")["request_order"] is None
    assert not Path("b.jsonl").exists()


def test_a_log_that_cannot_be_written_in_another_order(optimize: Optimize) -> None:
    lines = chat_log("a.jsonl")
    os.link("a.jsonl", "same.jsonl")
    refused(optimize, "is the log itself", "a.jsonl", "--capacity", "60", "-o", "same.jsonl")
    refused(optimize, "give one INPUT", "a.jsonl", "same.jsonl", "-o", "b.jsonl")
    refused(optimize, "-o needs a file", "a.jsonl", "-o", "-")
    write("array.json", b"[" + b",".join(line.strip() for line in lines) + b"]")
    refused(optimize, "-o needs one request on each line", "array.json", "--capacity", "60", "-o", "b.jsonl")
    refused(optimize, "cannot write nowhere/b.jsonl", "a.jsonl", "--capacity", "60", "-o", "nowhere/b.jsonl")


def test_blank_lines_and_a_byte_order_mark(optimize: Optimize) -> None:
    lines = chat_log("a.jsonl")
    write("marked.jsonl", b"\xef\xbb\xbf\n" + b"\r\n".join(line.strip() for line in lines) + b"\r\n\n")
    optimize("marked.jsonl", "--capacity", "60", "-o", "b.jsonl")
    data = Path("b.jsonl").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf{")
    assert sorted(data[3:].split(b"\r\n")) == sorted([b"", *(line.strip() for line in lines)])


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (
            FileEdit("prompts/desk.md", 0, 0, "{{ rid }} "),
            "group `desk` would hit less (42.5% -> 1.8%), so the edit was dropped",
        ),
        (FileEdit("prompts/desk.md", 0, 0, "!"), "the edited files hit no more than before, so the edit was dropped"),
    ],
)
def test_an_edit_that_does_not_win_is_dropped(
    optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch, edit: FileEdit, reason: str
) -> None:
    """The prompts promise a gain; edits that do something else are found out when the files are run."""
    write("prompts/desk.md", "# Desk\n" + RULES * 4 + "Now: {{ now }}\n" + RULES * 4)
    before = contents()
    monkeypatch.setattr("kvtool.profiler.optimize.optimizer.edits_for", lambda *_: [edit])
    found = document(optimize, desk, "--allow", "P2", "--write")
    (step,) = found["steps"]
    assert (step["edited"], step["reason"]) == (False, reason)
    assert found["files"] == []
    assert found["hit_rate"]["before"] == found["hit_rate"]["after"] < step["hit_rate"]["after"]
    assert contents() == before


def test_content_is_not_changed_for_little(optimize: Optimize) -> None:
    """Once the clock stands at the end, the hour instead of the time would win two points more."""
    write("prompts/desk.md", "# Desk\nNow: {{ now }}\n" + RULES * 24)
    write("w.yaml", "".join(line for line in WORKLOAD.splitlines(keepends=True) if "{{ n }}" not in line))
    found = document(optimize, "w.yaml", "--unsafe-fixes", "--write")
    first, second = found["steps"]
    assert (first["tier"], first["edited"]) == ("P2", True)
    assert (second["tier"], second["reason"]) == ("P3", "too little is won for a change of what prompts say")
    assert found["files"] == ["prompts/desk.md"]
    assert document(optimize, "w.yaml", "--unsafe-fixes")["files"] == []


@pytest.mark.parametrize("edited", [True, False])
def test_a_prompt_that_two_groups_read(optimize: Optimize, edited: bool) -> None:
    """One file, two groups: it is edited where both win by that; what wins in one alone may not change the other's prompts."""
    write("prompts/desk.md", PROMPT)
    other = WORKLOAD[WORKLOAD.index("  - name: desk") :].replace("name: desk", "name: other").replace("Question", "Ask")
    write("w.yaml", WORKLOAD + other + ("" if edited else "    tenant: other\n    vars: {now: noon, rid: one}\n"))
    before = contents()
    found = document(optimize, "w.yaml", "--allow", "P2")
    assert {step["edited"] for step in found["steps"]} == {edited}
    assert all(edited or "reads the same text" in step["reason"] for step in found["steps"])
    for group in found["groups"]:
        assert (group["hit_rate"]["after"] > group["hit_rate"]["before"]) == edited
    assert contents() == before


def break_runs(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Ctrl-C in the middle of the pass with this number."""
    account = WorkloadRuns.run
    passes = 0

    def interrupted(self: WorkloadRuns, *arguments: Any, **options: Any) -> Any:
        nonlocal passes
        result = account(self, *arguments, **options)
        passes += 1
        result.partial = passes == number
        return result

    monkeypatch.setattr(WorkloadRuns, "run", interrupted)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_an_interruption_writes_nothing(
    optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = contents()
    break_runs(monkeypatch, number)
    code, out, err = optimize(desk, "--allow", "P2", "--write")
    assert (code, out) == (130, "")
    assert "interrupted; no file was changed" in err
    assert contents() == before


def test_a_file_that_changes_meanwhile(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files = apply.write_files

    def late(files: Any) -> None:
        Path("prompts/desk.md").write_text("written by somebody else")
        write_files(files)

    monkeypatch.setattr("kvtool.profiler.optimize.write_edits.write_files", late)
    code, _, err = optimize(desk, "--allow", "P2", "--write")
    assert code == 2
    assert "`prompts/desk.md` has changed since it was read" in err
    assert "no file was changed; run it again" in err
    assert Path("prompts/desk.md").read_text() == "written by somebody else"
    assert sorted(contents()) == ["prompts/desk.md", "w.yaml"]


def test_a_target_that_is_write_protected(optimize: Optimize, desk: str) -> None:
    Path("prompts/desk.md").chmod(0o444)
    refused(optimize, "it is write-protected", desk, "--allow", "P2", "--write")


def test_a_folder_that_cannot_be_written(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def no_entry(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & os.O_EXCL and str(path).startswith(".desk.md."):
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", no_entry)
    refused(optimize, "cannot write prompts/desk.md: Permission denied", desk, "--allow", "P2", "--write")


def test_a_full_disk(optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kvtool.fixes.edits.apply.os.fsync", full)
    refused(optimize, "cannot write prompts/desk.md: No space left on device", desk, "--allow", "P2", "--write")


def test_no_line_is_wider_than_the_terminal(optimize: Optimize, desk: str) -> None:
    tools = [[{"name": name, "description": RULES.strip()} for name in order] for order in ("abc", "cab", "bca")]
    write("tools.txt", "\n".join(json.dumps(each) for each in tools) + "\n")
    text = WORKLOAD.replace("vars:\n", "vars:\n  tools: {file: tools.txt, pick: random}\n") + TOOLS
    write("w.yaml", text)
    for width in (60, 80, 120):
        out = optimize("w.yaml", "--width", str(width), "--unsafe-fixes", "--breakpoints", "4")[1]
        lines = [line for line in out.splitlines() if "tokenizer.json" not in line]
        assert max(map(cell_width, lines)) <= width, width


def turns(*contents: str) -> list[Turn]:
    return [
        Turn(
            "g", messages=[{"role": "system", "content": Traced(RULES * 20)}, {"role": "user", "content": Traced(each)}]
        )
        for each in contents
    ]


def test_breakpoints_by_hand() -> None:
    """Ten requests with one system block of 1,660 tokens and ten of their own: written once, read nine times."""
    size = len(RULES) * 20
    plan = plan_breakpoints("g", turns(*(f"question {n}" for n in range(10))), len, 4)
    assert plan is not None
    assert plan.cost.no_caching == 10 * (size + 10)
    assert plan.best.where == ["after system block 1"]
    assert plan.cost.best == pytest.approx(1.25 * size + 9 * 0.1 * size + 100)
    assert plan.cost.naive == pytest.approx(1.25 * size + 9 * 0.1 * size + 10 * 1.25 * 10)


def test_breakpoints_of_a_conversation_move_with_its_end() -> None:
    """What a turn adds is read by the next one only where a breakpoint stood at its end."""
    rounds = 8
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": Traced(f"{n} {RULES * 15}")} for n in range(15)
    ]
    conversation = [Turn("g", messages=messages[: 2 * n + 1]) for n in range(rounds)]
    plan = plan_breakpoints("g", conversation, len, 1)
    assert plan is not None
    assert (plan.best.after_blocks, plan.best.last_message) == ([], True)
    sizes = [sum(len(message["content"]) for message in turn.messages or ()) for turn in conversation]
    added = [sizes[0], *(after - before for before, after in pairwise(sizes))]
    assert plan.cost.best == pytest.approx(sum(1.25 * each for each in added) + 0.1 * sum(sizes[:-1]))


def test_no_breakpoints_where_they_cost_more() -> None:
    plan = plan_breakpoints("g", turns("only once"), len, 4)
    assert plan is not None
    assert plan.best.where == []
    assert plan.cost.best == plan.cost.no_caching < plan.cost.naive
    assert plan_breakpoints("g", [Turn("g", text=Traced("no messages"))], len, 4) is None
