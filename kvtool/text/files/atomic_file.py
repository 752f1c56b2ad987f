"""Output files that are either whole or not there."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

from kvtool.errors import KvtoolError
from kvtool.text.files.checkout_links import write_target
from kvtool.text.files.part_file import NEW_FILE, PartFile

PRIVATE = 0o600
"""The mode of a new file that only its user may read."""


def as_private_as(paths: Iterable[str | Path]) -> int:
    """The mode for a new file that quotes these: who may not read or write one of them may not do so here. OSError."""
    mode = NEW_FILE
    for path in paths:
        mode &= stat.S_IMODE(Path(path).stat().st_mode)
    return mode | PRIVATE


class AtomicFile:
    """A file that appears, whole, when it is closed; until then it is written under another name beside it.

    As a context manager it leaves nothing where the block ends with an error, Ctrl-C included. What is no regular file (a pipe,
    /dev/stdout) is written as it comes. A file that is rewritten keeps its mode. A link that leads out of a checkout is refused.
    """

    def __init__(self, path: str | Path, *, mode: int = NEW_FILE) -> None:
        """KvtoolError where the file could not be made. `mode` is that of a new file, before the umask."""
        self.path = Path(path)
        self._part: PartFile | None = None
        try:
            target = write_target(self.path)  # a link goes on pointing to the file
            if self.path.is_dir():
                raise IsADirectoryError(0, "it is a directory")
            if self.path.exists():
                if not self.path.is_file():
                    self._file: IO[bytes] = self.path.open("wb")
                    return
                if not os.access(self.path, os.W_OK):
                    raise PermissionError(0, "it is write-protected")
            self._part = PartFile(target, mode=mode)
            self._file = self._part.file
        except (OSError, ValueError) as error:  # the latter of a name with a null character in it
            raise self._failed(error) from error

    def _failed(self, error: OSError | ValueError) -> KvtoolError:
        return KvtoolError(f"cannot write {self.path}: {getattr(error, 'strerror', None) or error}")

    def write(self, data: bytes) -> None:
        """Append; KvtoolError, and no file, where the disk is full."""
        try:
            self._file.write(data)
        except OSError as error:
            self.discard()
            raise self._failed(error) from error

    def close(self) -> None:
        """Put the file in its place."""
        try:
            if self._part is None:
                self._file.close()
            else:
                self._part.put()
        except OSError as error:
            self.discard()
            raise self._failed(error) from error
        except BaseException:  # a signal: who made the folder looks whether it is empty
            self.discard()
            raise

    def discard(self) -> None:
        """Leave no file."""
        with contextlib.suppress(OSError):
            self._file.close()
        if self._part is not None:
            self._part.discard()

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
