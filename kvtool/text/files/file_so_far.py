"""A file up to where it ends now: what is appended while it is read is for the next run, so that reading comes to an end."""

from __future__ import annotations

import io
import os
import stat


def end_of(descriptor: int) -> int | None:
    """Where an open file ends, in bytes; None where nobody knows: a device, a pipe, what a kernel makes up while it is read."""
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_size else None


class FileSoFar(io.FileIO):
    """The bytes that a file has when it is opened, or fewer where it is cut meanwhile. Raises OSError as `open` does."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._end = end_of(self.fileno())

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override] # typeshed: a wider Buffer
        if self._end is None:
            return super().readinto(buffer)
        return super().readinto(memoryview(buffer)[: max(0, self._end - self.tell())])

    def readall(self) -> bytes:
        return io.RawIOBase.readall(self) or b""
