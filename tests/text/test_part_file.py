"""Files in the making: what dead processes left is removed, what anybody else has stays."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtool.text.files import part_file
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.files.part_file import PartFile

WRITER = """
import sys
from pathlib import Path
from kvtool.text.files.part_file import PartFile
part = PartFile(Path(sys.argv[1]))
part.file.write(b"half")
part.file.flush()
print(part.path.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that writes `other.json` and has not finished; and its file in the making."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "other.json")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, tmp_path / process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_what_a_dead_process_left_is_removed(tmp_path: Path, writer: tuple[subprocess.Popen[str], Path]) -> None:
    process, part = writer
    with AtomicFile(tmp_path / "a"):
        assert part.read_bytes() == b"half", "it lives"
    process.kill()
    process.wait()
    assert part.exists()
    with AtomicFile(tmp_path / "b"):
        assert not part.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_files_of_one_process_do_not_remove_each_other(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "a") as one:
        one.write(b"1")
        with AtomicFile(tmp_path / "b") as other:
            other.write(b"2")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"1", b"2")


def left_over(folder: Path) -> Path:
    """A file in the making whose process is dead, as far as its name and its lock say."""
    part = PartFile(folder / "x.json")
    name = part.path
    part.discard()
    name.write_bytes(b"half")
    return name


def test_what_is_not_certainly_left_over_stays(tmp_path: Path) -> None:
    name = left_over(tmp_path).name
    mark = name.split("kvtool-")[1]
    others = {
        "x.json.part",
        ".x.json.part",
        ".x.json.1a2b3c4d.part",
        f"x.json.kvtool-{mark}",
        f"{name}.gz",
        name.replace(mark, "00000000" + mark[8:]),  # of another host
        name.replace(mark, mark.upper().replace(".PART", ".part")),
    } - {name}
    for other in others:
        (tmp_path / other).write_text("mine")
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / f".link{name}"
    link.symlink_to(target)
    twice = tmp_path / f".twice{name}"
    twice.hardlink_to(target)
    folder = tmp_path / f".folder{name}"
    folder.mkdir()
    with AtomicFile(tmp_path / "new"):
        pass
    left = {path.name for path in tmp_path.iterdir()}
    assert left == others | {"target", "new", link.name, twice.name, folder.name}


def test_what_another_user_left_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = left_over(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: part.stat().st_uid + 1)
    PartFile(tmp_path / "new").discard()
    assert part.exists()


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(handle: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    part = left_over(tmp_path)
    monkeypatch.setattr(fcntl, "flock", refused)
    with AtomicFile(tmp_path / "new") as file:
        file.write(b"text")
        assert part.exists(), "who knows whether it is written"
        (own,) = (path for path in tmp_path.iterdir() if path != part)
        assert part_file._OWN_PART.fullmatch(own.name) is None, "others must not take it for left over"
    assert (tmp_path / "new").read_bytes() == b"text"
    assert {path.name for path in tmp_path.iterdir()} == {"new", part.name}


def test_one_that_was_removed_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def late(handle: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        for path in tmp_path.iterdir():
            path.unlink()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with AtomicFile(tmp_path / "new") as file:
        file.write(b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new").read_bytes() == b"text"


def test_one_that_nobody_has_in_hand_is_removed(tmp_path: Path) -> None:
    PartFile(tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("letter", ["x", "長"])
def test_the_longest_names(letter: str, tmp_path: Path) -> None:
    name = letter * (255 // len(letter.encode()))
    with AtomicFile(tmp_path / name) as file:
        file.write(b"text")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_rewritten_file_keeps_its_mode(tmp_path: Path) -> None:
    for mode in [0o600, 0o640, 0o755, 0o666]:
        path = tmp_path / "file"
        path.write_text("old")
        path.chmod(mode)
        with AtomicFile(path, mode=0o600) as file:
            (part,) = (each for each in tmp_path.iterdir() if each != path)
            assert stat.S_IMODE(part.stat().st_mode) == mode, "before anything is in it"
            file.write(b"new")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)


def test_a_new_private_file(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "file", mode=0o600):
        (part,) = tmp_path.iterdir()
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_rewritten_file_keeps_its_owner_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o6750)
    asked: list[tuple[int, int]] = []

    def refused(handle: int, user: int, group: int) -> None:
        asked.append((user, group))
        raise PermissionError(1, "Operation not permitted")

    status = os.fstat

    def of_another(handle: int) -> os.stat_result:
        found = list(status(handle))
        found[5] += 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fchown", refused)
    monkeypatch.setattr(os, "fstat", of_another)
    with AtomicFile(path):
        pass
    assert asked == [(path.stat().st_uid, path.stat().st_gid), (-1, path.stat().st_gid)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o750, "nobody's rights become those of another owner"


def test_a_file_that_another_process_takes_for_left_over_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, busy = fcntl.flock, [BlockingIOError(), BlockingIOError()]

    def taken(handle: int, how: int) -> None:
        if busy:
            raise busy.pop()
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", taken)
    part = PartFile(tmp_path / "a")
    assert ".kvtool-" in part.path.name, "it would never be removed"
    assert list(tmp_path.iterdir()) == [part.path]
    part.discard()
