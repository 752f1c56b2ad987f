"""Where llama.cpp keeps the last tokens of layers with a sliding window: cells, and checkpoints that are written out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_EMPTY = -1

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class WindowCheckpoint:
    """The window before token `num_tokens` of a prompt.

    The cells held the positions from `first` to `last`; written out were only those in `positions`, which the window reached.
    """

    num_tokens: int
    first: int
    last: int
    positions: Positions
    num_bytes: int
    request: int
    """The number of the request that it was made for."""


class WindowCells:
    """One pool: each cell holds the KV of a position of one slot. What a window no longer reaches may be overwritten.

    Cells are found from where the last ones were found on, so tokens behind the window last until the search comes round.
    """

    def __init__(self, cells: int, window: int, slots: int) -> None:
        self.window = window
        self.pos: Positions = np.full(cells, _EMPTY, dtype=np.int64)
        self.slot: Positions = np.zeros(cells, dtype=np.int64)
        self.last: Positions = np.full(slots, _EMPTY, dtype=np.int64)
        """The largest position of each slot."""
        self.head = 0

    def first(self, slot: int) -> int:
        """The smallest position of a slot; -1 where it has none."""
        held = self.pos[(self.slot == slot) & (self.pos != _EMPTY)]
        return int(held.min()) if len(held) else _EMPTY

    def put(self, slot: int, positions: Positions) -> bool:
        """Find cells for positions of a slot, all or none."""
        if (cells := self._find(len(positions))) is None:
            return False
        lost: dict[int, int] = {}
        for of in np.unique(self.slot[cells][self.pos[cells] != _EMPTY]):
            taken = self.pos[cells][self.slot[cells] == of]
            lost[int(of)] = int(taken.max())
        self.pos[cells] = positions
        self.slot[cells] = slot
        self.last[slot] = max(int(self.last[slot]), int(positions.max()))
        for of, most in lost.items():  # what is kept of a slot has no gaps: all before an overwritten position goes
            self.remove(of, 0, most + 1)
        self.head = int(cells[-1]) + 1
        return True

    def _find(self, count: int) -> npt.NDArray[np.intp] | None:
        used = int(np.count_nonzero(self.pos != _EMPTY))
        head = 0 if self.head > used + 2 * count else self.head
        free = (self.pos == _EMPTY) | (self.last[self.slot] + 1 - self.pos >= self.window)
        cells = np.flatnonzero(free)
        after = int(np.searchsorted(cells, head))
        if len(cells) < count:
            return None
        return np.concatenate((cells[after:], cells[:after]))[:count]

    def remove(self, slot: int, begin: int, end: int | None = None) -> None:
        """Free the cells of positions from `begin` to before `end`."""
        gone = (self.slot == slot) & (self.pos >= max(begin, 0))
        if end is not None:
            gone &= self.pos < end
        cells = np.flatnonzero(gone)
        if len(cells):
            self.pos[cells] = _EMPTY
            self.head = min(self.head, int(cells[0]))
            self.last[slot] = self.pos[self.slot == slot].max(initial=_EMPTY)

    def move(self, slot: int, begin: int, end: int, to: int) -> None:
        """Give the positions from `begin` to before `end` of a slot to what follows `to`; what is in between goes."""
        self.remove(slot, to, begin)
        self.pos[(self.slot == slot) & (self.pos >= begin) & (self.pos < end)] -= begin - to
        self.last[slot] = self.pos[self.slot == slot].max(initial=_EMPTY)
        self.head = 0

    def saved(self, slot: int) -> Positions:
        """What is written out of a slot, in the order of the cells: what its window still reaches."""
        mine = (self.slot == slot) & (self.pos != _EMPTY)
        reached: Positions = self.pos[mine & (self.last[slot] - self.pos < self.window)]
        return reached

    def restore(self, slot: int, positions: Positions) -> bool:
        """Put back what was written, in place of all that the slot holds."""
        self.remove(slot, 0)
        return not len(positions) or self.put(slot, positions)
