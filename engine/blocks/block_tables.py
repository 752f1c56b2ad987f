"""Requests' block ids as arrays, kept from step to step: to convert the lists anew would be most of a decode step's time here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtool.engine.request import Request

Int32 = npt.NDArray[np.int32]


class BlockTables:
    """Remember the rows of the last requests."""

    def __init__(self) -> None:
        self._rows: dict[Request, _Row] = {}

    def table(self, requests: Sequence[Request], num_blocks: Int32) -> Int32:
        """Return int32[n, num_blocks.max()]: the first num_blocks[i] blocks of each request, then zeros."""
        known, self._rows = self._rows, {}
        table = np.zeros((len(requests), int(num_blocks.max())), dtype=np.int32)
        for row, request, count in zip(table, requests, num_blocks.tolist(), strict=True):
            ids = known.get(request)
            if ids is None or ids.preemptions != request.num_preemptions:
                ids = _Row(request.num_preemptions)
            self._rows[request] = ids
            row[:count] = ids.first(count, request.block_ids)
        return table


class _Row:
    """The blocks of a request since its last preemption; until the next one it only gains blocks."""

    def __init__(self, preemptions: int) -> None:
        self.preemptions = preemptions
        self._ids = np.empty(0, dtype=np.int32)
        self._count = 0

    def first(self, count: int, block_ids: list[int]) -> Int32:
        if count > self._count:
            if count > len(self._ids):
                grown = np.empty(max(count, 2 * len(self._ids)), dtype=np.int32)
                grown[: self._count] = self._ids[: self._count]
                self._ids = grown
            self._ids[self._count : count] = block_ids[self._count : count]
            self._count = count
        return self._ids[:count]
