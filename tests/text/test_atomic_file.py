"""Output files that are either whole or not there."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.text.files.atomic_file import AtomicFile


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    with AtomicFile(tmp_path / "new") as file:
        file.write(b"text")
    assert (tmp_path / "new").read_bytes() == b"text"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_link_goes_on_pointing_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with AtomicFile(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_and_never_replaced() -> None:
    with AtomicFile(os.devnull) as file:
        file.write(b"text")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_pipe_is_written_as_it_comes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    with AtomicFile(tmp_path / "pipe") as file:
        file.write(b"text")
    reader.join()
    assert got == [b"text"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error() -> None:
    with pytest.raises(KvtoolError, match="cannot write /dev/full: No space left"), AtomicFile("/dev/full") as file:
        file.write(b"x" * 1_000_000)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_disk_that_is_full_at_the_end_is_an_error() -> None:
    with pytest.raises(KvtoolError, match="cannot write /dev/full: No space left"), AtomicFile("/dev/full") as file:
        file.write(b"x")


def test_a_write_protected_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(KvtoolError, match="write-protected"):
        AtomicFile(path)
    assert path.read_text() == "old"


def test_a_directory_that_goes_away_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = AtomicFile(folder / "file")
    (partial,) = folder.iterdir()
    partial.unlink()
    folder.rmdir()
    with pytest.raises(KvtoolError, match=r"cannot write .*No such file"):
        file.close()


def test_loops_of_links_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(KvtoolError, match="cannot write "):
        AtomicFile(tmp_path / "a")
