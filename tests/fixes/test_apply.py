"""Edits in texts and files: exact, all or none, and patches that the usual tools take in both directions."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.fixes.edits.apply import FileEdit, apply_edits, write_files
from kvtool.fixes.edits.patch import undo_patch, unified_patch


@dataclass(frozen=True)
class Changed:
    path: str
    before: str
    after: str


def test_edits_replace_what_they_name_and_nothing_else() -> None:
    edits = [
        FileEdit("a", 6, 11, "you"),
        FileEdit("a", 0, 0, "\ufeff"),
        FileEdit("b", 1, 1, "2"),
        FileEdit("b", 1, 1, "3"),
    ]
    texts = {"a": "Hello world\r\n", "b": "14", "c": "same"}
    assert apply_edits(texts, edits) == {"a": "\ufeffHello you\r\n", "b": "1234"}
    assert apply_edits(texts, [FileEdit("c", 0, 4, "same")]) == {}


def test_edits_that_cannot_be_meant_are_refused() -> None:
    for edits in [
        [FileEdit("a", 0, 3, ""), FileEdit("a", 2, 4, "")],
        [FileEdit("a", 0, 3, ""), FileEdit("a", 1, 1, "x")],
        [FileEdit("a", 3, 6, "")],
        [FileEdit("a", 2, 1, "")],
        [FileEdit("gone", 0, 0, "")],
    ]:
        with pytest.raises(KvtoolError):
            apply_edits({"a": "12345"}, edits)


def test_files_keep_mode_and_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old\r\n")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_files([Changed(str(tmp_path / "link"), "old\r\n", "new\r\n")])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new\r\n"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def _protect(path: Path) -> None:
    path.chmod(0o444)


def _vanish(path: Path) -> None:
    path.unlink()


def _change(path: Path) -> None:
    path.write_text("B\n# and more\n")


def _become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (_protect, "write-protected"),
        (_vanish, "No such file"),
        (_change, "has changed since it was read"),
        (_become_a_folder, "not a regular file"),
        (_become_a_pipe, "not a regular file"),
    ],
)
def test_one_bad_file_and_nothing_is_written(tmp_path: Path, harm: object, reason: str) -> None:
    assert callable(harm)
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("A")
    b.write_text("B\n")
    harm(b)
    names = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(KvtoolError, match=reason):
        write_files([Changed(str(a), "A", "a"), Changed(str(b), "B\n", "b")])
    assert a.read_text() == "A"
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failure_half_way_takes_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    files = [Changed(str(tmp_path / name), name, name * 2) for name in "abc"]
    for file in files:
        Path(file.path).write_text(file.before)
    replace, calls = os.replace, 0

    def fail(name: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        nonlocal calls
        calls += name.endswith(".part")
        if name.endswith(".part") and calls == failing + 1:
            raise OSError(28, "No space left on device")
        replace(name, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KvtoolError, match="No space left"):
        write_files(files)
    assert [Path(file.path).read_text() for file in files] == ["a", "b", "c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_a_file_system_without_hard_links_is_served_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a").write_text("A")
    write_files([Changed(str(tmp_path / "a"), "A", "B")])
    assert (tmp_path / "a").read_text() == "B"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_second_name_of_a_file_may_not_say_something_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A")
    (tmp_path / "link").symlink_to("a")
    names = [str(tmp_path / "a"), str(tmp_path / "link")]
    with pytest.raises(KvtoolError, match="one file"):
        write_files([Changed(names[0], "A", "B"), Changed(names[1], "A", "C")])
    write_files([Changed(name, "A", "B") for name in names])
    assert (tmp_path / "a").read_text() == "B"


def test_applied_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A")
    change = Changed(str(tmp_path / "a"), "A", "B")
    write_files([change])
    with pytest.raises(KvtoolError, match="has changed since"):
        write_files([change])
    assert (tmp_path / "a").read_text() == "B"


def test_a_patch_reads_as_one() -> None:
    before = "".join(f"{number}\n" for number in range(1, 21))
    after = before.replace("3\n", "3a\n", 1).replace("18\n", "").replace("20\n", "20")
    assert unified_patch([Changed("p.md", before, after), Changed("q.md", "x", "x")]) == (
        "--- p.md\n+++ p.md\n"
        "@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+3a\n 4\n 5\n 6\n"
        "@@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n-20\n+20\n\\ No newline at end of file\n"
    )
    assert unified_patch([]) == ""


TOOLS = [["patch", "-i"], ["git", "apply", "--whitespace=nowarn"]]
LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "\n", "a\r\n", "  c \n", "\u2028\x0b\n", "é\n", "-- \n", "@@\n", "\tt\n", "\r\n"]),
    max_size=24,
)
TEXTS = st.tuples(st.sampled_from(["", "\ufeff"]), LINES, st.sampled_from(["", "end", "\r", " ", "\tend"])).map(
    lambda parts: parts[0] + "".join(parts[1]) + parts[2]
)


def run(tool: Sequence[str], patch: str, folder: Path) -> None:
    (folder / "the.patch").write_bytes(patch.encode())
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run([*tool, "the.patch"], cwd=folder, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr, patch)


@pytest.mark.parametrize("tool", TOOLS, ids=["patch", "git"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    before=TEXTS.filter(bool), after=TEXTS.filter(bool), name=st.sampled_from(["w.yaml", "my prompt.md", 'a"b\té.md'])
)
def test_patches_work_both_ways(tmp_path: Path, tool: list[str], before: str, after: str, name: str) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"no {tool[0]} here")
    if before == after:
        return
    files = [Changed(name, before, after), Changed("other.txt", "1\n2", "1\n3\n")]
    for file in files:
        (tmp_path / file.path).write_bytes(file.before.encode())
    run([*tool[:-1], "-p0", tool[-1]], unified_patch(files), tmp_path)
    assert [(tmp_path / file.path).read_bytes() for file in files] == [file.after.encode() for file in files]
    run([*tool[:-1], "-p1", tool[-1]], undo_patch(files), tmp_path)
    assert [(tmp_path / file.path).read_bytes() for file in files] == [file.before.encode() for file in files]
