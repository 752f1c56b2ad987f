"""Files that `kvtool optimize --write` writes, and their undo."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.profiler.optimize.write_edits import write_edits
from tests.files import write
from tests.profiler.optimize.conftest import RULES, WORKLOAD, Change, Optimize, contents, document, patched, refused


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


def test_undo_restores_each_byte(optimize: Optimize, desk: str) -> None:
    before = contents()
    code, out, _ = optimize(desk, "--allow", "P2", "--write")
    assert code == 0
    assert "Wrote 1 file. Undo with:\n  patch -p1 < .kvtool/w.yaml.undo.patch\n" in out
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
