"""Inputs that can be read only once (standard input, a pipe), kept in temporary files so that every pass can read them."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import weakref
from pathlib import Path

from kvtool.errors import KvtoolError, Place
from kvtool.text.terminal.streams import STDIN


def reads_once(path: str) -> bool:
    """Return whether what is named gives its bytes only once: standard input, a pipe, a device. Opening it again may wait
    forever."""
    if path == STDIN:
        return True
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False  # opening it reports what is wrong
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class Spool:
    """The copies, as long as it lives."""

    def __init__(self) -> None:
        self._copies: dict[str, str] = {}

    def file(self, path: str) -> str:
        """Return the path to read: for what can be read only once, a temporary file with all of it."""
        if path in self._copies:
            return self._copies[path]
        if not reads_once(path):
            return path
        if path != STDIN and not (_is_pipe(path) or os.path.realpath(path) == os.devnull or _is_terminal(path)):
            raise KvtoolError("this is a device, not a log", place=Place(path))
        with tempfile.NamedTemporaryFile(prefix="kvtool-", delete=False) as copy:
            weakref.finalize(self, _remove, copy.name)
            try:
                if path == STDIN:
                    if sys.stdin is None or sys.stdin.closed:
                        raise KvtoolError("standard input is closed", place=Place(path))
                    shutil.copyfileobj(sys.stdin.buffer, copy)
                else:
                    with Path(path).open("rb") as pipe:
                        shutil.copyfileobj(pipe, copy)
            except OSError as error:
                raise KvtoolError(f"cannot read: {error.strerror or error}", place=Place(path)) from error
        self._copies[path] = copy.name
        return copy.name

    def read_from(self, path: str) -> str:
        """Return the path of its bytes: the copy, or the file itself."""
        return self._copies.get(path, path)


def _is_pipe(path: str) -> bool:
    mode = Path(path).stat().st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_terminal(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return True  # opening it reports what is wrong
    try:
        return os.isatty(handle)
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 # a Path would be one more thing that must still work at exit
