"""Token ids that are read again now and then: the latest in memory, all before them in a file that has no name."""

from __future__ import annotations

import os
import tempfile
import weakref

import numpy as np
import numpy.typing as npt

from kvtool.text.align import common_prefix

Ids = npt.NDArray[np.int32]

IN_MEMORY = 1 << 20
"""Most tokens in memory: 4 MiB. A workload with fewer does not use the disk."""
_FIRST = 1 << 16
"""First size of the memory, in tokens; it doubles up to `IN_MEMORY`."""
_STRIDE = 256
"""First tokens that are compared at once; most prompts diverge early, so later strides are longer."""
_ITEM = 4
"""Bytes of a token id."""


class TokenStore:
    """An array of token ids that only grows. Four bytes a token, most of them on the disk.

    The file is a temporary one without a name, which only this process can open and which disappears when it ends. If none can be
    written (no room, say), everything stays in memory.
    """

    def __init__(self, *, in_memory: int = IN_MEMORY) -> None:
        self._most = in_memory
        self._filed = 0
        """Tokens in the file; the others are in `_latest`."""
        self._latest = np.empty(min(_FIRST, in_memory), np.int32)
        self._count = 0
        self._file = -1
        self._may_file = True

    def __len__(self) -> int:
        return self._filed + self._count

    def add(self, ids: Ids) -> int:
        """Append ids `[n]`; return the place of the first one."""
        if self._count + len(ids) > self._most and self._count and self._may_file:
            self._may_file = self._write()
        at, stop = len(self), self._count + len(ids)
        if stop > len(self._latest):
            grown = np.empty(max(2 * len(self._latest), stop), np.int32)
            grown[: self._count] = self._latest[: self._count]
            self._latest = grown
        self._latest[self._count : stop] = ids
        self._count = stop
        return at

    def read(self, start: int, stop: int) -> Ids:
        """Return the ids in places `[start, stop)`, of one `add`; not to be changed."""
        if start >= self._filed:
            return self._latest[start - self._filed : stop - self._filed]
        return np.frombuffer(os.pread(self._file, _ITEM * (stop - start), _ITEM * start), np.int32)

    def common_prefix(self, start: int, stop: int, ids: Ids) -> int:
        """Return how many leading items of `ids` equal those in places `[start, stop)`, of one `add`."""
        if start >= self._filed:
            return common_prefix(self.read(start, stop), ids)
        at, stride = start, _STRIDE
        while at < stop:  # in growing strides: most sequences that begin with one token alike differ soon
            piece = self.read(at, min(at + stride, stop))
            same = common_prefix(piece, ids[at - start : at - start + len(piece)])
            at += same
            if same < len(piece):
                break
            stride *= 4
        return at - start

    def _write(self) -> bool:
        """Write tokens in memory to the file; return False if that fails."""
        try:
            if self._file < 0:
                with tempfile.TemporaryFile(prefix="kvtool-", buffering=0) as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            data = self._latest[: self._count].data.cast("B")
            offset = _ITEM * self._filed
            while len(data):
                written = os.pwrite(self._file, data, offset)
                data, offset = data[written:], offset + written
        except OSError:
            return False
        self._filed += self._count
        self._count = 0
        return True
