"""A file that takes a descriptor only while it is read, so that any number of files can be read side by side."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import SupportsIndex

from kvtool.text.files.file_so_far import end_of

_CHANGED = "the file was replaced while it was read"


class ParkedFile(io.RawIOBase):
    """The bytes that a file has at first; each read opens it, goes to where the last one ended, and closes it again.

    Raises OSError as `open` does, and where another file has the name by then.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._at = 0
        with Path(path).open("rb", buffering=0) as file:
            self._same = _identity(file.fileno())
            self._end = end_of(file.fileno())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override] # typeshed: a wider Buffer
        with Path(self._path).open("rb", buffering=0) as file:
            if _identity(file.fileno()) != self._same:
                raise OSError(None, _CHANGED)
            file.seek(self._at)
            room = len(buffer) if self._end is None else max(0, self._end - self._at)
            count = file.readinto(memoryview(buffer)[:room]) or 0
        self._at += count
        return count

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def seek(self, offset: SupportsIndex, whence: int = os.SEEK_SET, /) -> int:
        if whence != os.SEEK_SET:
            raise OSError(None, "only places from the beginning are known")
        self._at = offset.__index__()
        return self._at


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
