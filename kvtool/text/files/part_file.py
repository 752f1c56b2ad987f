"""Files in the making: hidden beside the file that they become, locked while they are written, removed where their writer died."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
import zlib
from pathlib import Path
from typing import IO

from kvtool.text.files.checkout_links import open_folder

NEW_FILE = 0o666
"""The mode of a new file, before the umask takes from it."""
_OWN_PART = re.compile(r"\..*\.kvtool-([0-9a-f]{8})-[0-9a-f]{16}\.part", re.DOTALL)
_MOST_NAME = 180
"""Bytes of the target's name that are in the part's: a name has at most 255."""
_BUFFER = 1 << 18
_TRIES = 8
"""Files that others may take for left over, one after the other."""


class PartFile:
    """A hidden file beside `target` that takes its place when it is put there; a target that is there keeps its owner and its mode.

    The process that writes it holds a lock on it, which ends with the process however that ends. So the next one that writes into
    this folder can tell what nobody writes any more, and removes that: only what has such a name, was made on this host (locks may
    not reach others), belongs to this user and is not locked. Where a file system has no locks, the file gets a name that nobody
    removes. The folder is held open: a link that takes its place meanwhile changes nothing.
    """

    def __init__(self, target: Path, *, mode: int = NEW_FILE) -> None:
        """OSError where it cannot be made. `target` is a path of `write_target`; `mode`, before the umask, is for a new file."""
        self._folder: int | None = None
        self._handle: int | None = None
        self._file: IO[bytes] | None = None
        self._old: str | None = None
        self.path = target
        self._target = target
        remove_left_over(target.parent)
        self._folder = open_folder(target.parent)
        before = self._before()
        made = mode if before is None else 0o600  # nobody else reads it before it has the mode that it should have
        handle = self._locked_part(made)
        if before is not None:
            _become(handle, before)
        self._file = os.fdopen(os.dup(handle), "wb", buffering=_BUFFER)  # the lock stays until both are closed

    def _before(self) -> os.stat_result | None:
        """Return the status of the file that it replaces; None where there is none, or a link by now."""
        try:
            status = os.stat(self._target.name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return None if stat.S_ISLNK(status.st_mode) else status

    def _locked_part(self, mode: int) -> int:
        """Make it under a name that others know, locked; where there are no locks, under one that nobody removes."""
        for _ in range(_TRIES):
            handle = self._made(f"kvtool-{_host()}-{secrets.token_hex(8)}", mode)
            locked = _locked(handle)
            if locked:
                return handle
            self._remove_part()
            if locked is False:
                break
        return self._made(secrets.token_hex(8), mode)

    def _made(self, mark: str, mode: int) -> int:
        self.path = hidden_part_file(self._target, f"{mark}.part")
        handle = os.open(self.path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=self._folder)
        self._handle = handle
        return handle

    @property
    def file(self) -> IO[bytes]:
        """The file to write to."""
        assert self._file is not None
        return self._file

    def keep_old(self, data: bytes) -> None:
        """Keep what it replaces, which holds `data`, under another name for `restore`; OSError."""
        old, name, folder = (
            hidden_part_file(self._target, f"{secrets.token_hex(8)}.old").name,
            self._target.name,
            self._folder,
        )
        self._old = old
        try:
            os.link(name, old, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except (OSError, NotImplementedError):  # a file system without hard links
            handle = os.open(old, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as file:
                if (before := self._before()) is not None:
                    _become(handle, before)
                file.write(data)

    def put(self) -> None:
        """Close it and put it in its place; OSError where that fails."""
        assert self._handle is not None
        self.file.close()
        self._rename(self.path.name)
        os.close(self._handle)
        self._handle = None
        if self._old is None:
            self.discard()

    def restore(self) -> None:
        """Put back what was kept, where this was put in its place; OSError."""
        if self._handle is None and self._old is not None:
            self._rename(self._old)

    def _rename(self, name: str) -> None:
        os.replace(name, self._target.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def discard(self) -> None:
        """Leave nothing; what is in its place already stays."""
        self._remove_part()
        if self._old is not None:
            self._remove(self._old)
            self._old = None
        if self._folder is not None:
            folder, self._folder = self._folder, None
            os.close(folder)

    def _remove_part(self) -> None:
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._remove(self.path.name)
        os.close(handle)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    def __del__(self) -> None:
        """An exception can come (a signal) before the one who made it has it in hand."""
        self.discard()


def hidden_part_file(target: Path, ending: str) -> Path:
    """Another name in the target's folder, which listings leave out; no longer than names may be."""
    name = os.fsencode(target.name)[:_MOST_NAME].decode("utf-8", "ignore")
    return target.with_name(f".{name}.{ending}")


def _locked(handle: int) -> bool | None:
    """Return whether it can be locked, and is now; None where another process took it for left over before its lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return False
    return True if os.fstat(handle).st_nlink > 0 else None


def _become(handle: int, before: os.stat_result) -> None:
    """Give it the owner and the mode of the file that it replaces, as far as that is allowed and the file system has them."""
    now = os.fstat(handle)
    mode = stat.S_IMODE(before.st_mode)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(handle, before.st_uid, before.st_gid)
        except OSError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
            with contextlib.suppress(OSError):
                os.fchown(handle, -1, before.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(handle, mode)


def _host() -> str:
    """Return the name that says this host from others that write into the same folder."""
    known = os.uname().nodename.encode()
    with contextlib.suppress(OSError):
        known += Path("/etc/machine-id").read_bytes()
    return f"{zlib.crc32(known):08x}"


def remove_left_over(folder: Path) -> None:
    """Remove what was in the making in a folder and whose writers are gone."""
    host = _host()
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _OWN_PART.fullmatch(entry.name) if entry.name.endswith(".part") else None
            if found is not None and found[1] == host:
                names.append(entry.name)
    for name in names:
        with contextlib.suppress(OSError):  # locked, gone, or not ours: it stays
            _remove_unlocked(folder / name)


def _remove_unlocked(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there = os.fstat(handle)
        own = stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid() and there.st_nlink == 1
        if own and os.path.samestat(there, os.lstat(path)):  # still the one that is locked
            path.unlink()
    finally:
        os.close(handle)
