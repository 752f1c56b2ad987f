"""Model llama.cpp's memory of the last tokens in layers with a sliding window: cells, and saved checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_EMPTY = -1

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class WindowCheckpoint:
    """The window before token `num_tokens` of a prompt.

    The cells had the positions from `first` to `last`; only those in `positions`, which the window reached, were saved.
    """

    num_tokens: int
    first: int
    last: int
    positions: Positions
    num_bytes: int
    request: int
    """The number of the request that it was made for."""


class WindowCells:
    """One pool: each cell has the KV of a position of one slot. Positions before the window may be overwritten.

    The search for cells continues after the last result, so a token outlives its window until the search comes round. A slot's
    positions have no gaps.
    """

    def __init__(self, cells: int, window: int, slots: int) -> None:
        self.window = window
        self.pos: Positions = np.full(cells, _EMPTY, dtype=np.int64)
        self.slot: Positions = np.zeros(cells, dtype=np.int64)
        self.first = [_EMPTY] * slots
        """The smallest position of each slot; -1 for none."""
        self.last = [_EMPTY] * slots
        self.used = 0
        self.head = 0

    def append(self, slot: int, tokens: int, most: int) -> None:
        """Find cells for the next positions of a slot, at most so many at once."""
        at, end = self.last[slot] + 1, self.last[slot] + 1 + tokens
        while at < end:
            if most == 1 and (run := self._run(slot, end - at)):
                self._place(slot, np.arange(at, at + run), np.arange(self.head, self.head + run))
                at += run
                continue
            step = min(most, end - at)
            done = self.put(slot, np.arange(at, at + step))
            assert done, "a pool has room for the windows of all slots and a micro batch"
            at += step

    def _run(self, slot: int, tokens: int) -> int:
        """Return how many tokens, one at a time, go straight on from the head: into empty cells, or over the slot's own oldest."""
        here = slice(self.head, self.head + tokens)
        pos = self.pos[here]
        steps = np.arange(len(pos))
        empty = pos == _EMPTY
        filled = np.cumsum(empty) - empty
        oldest = (self.slot[here] == slot) & (pos == self.first[slot] + steps - filled)
        out_of_reach = self.last[slot] + 1 + steps - pos >= self.window
        on = (empty | (oldest & out_of_reach)) & (self.head + steps <= self.used + filled + 2)
        return len(pos) if on.all() else int(on.argmin())

    def put(self, slot: int, positions: Positions) -> bool:
        """Find cells for positions that follow a slot's positions, or are its first: for all of them, or return False."""
        if (cells := self._find(len(positions))) is None:
            return False
        self._place(slot, positions, cells)
        return True

    def _place(self, slot: int, positions: Positions, cells: npt.NDArray[np.intp]) -> None:
        taken = self.pos[cells]
        overwritten = [(number, int(taken[self.slot[cells] == number].max())) for number in self._slots_in(cells)]
        self.used += len(positions) - int(np.count_nonzero(taken != _EMPTY))
        self.pos[cells] = positions
        self.slot[cells] = slot
        self.last[slot] = int(positions[-1])
        if self.first[slot] == _EMPTY:
            self.first[slot] = int(positions[0])
        for number, most in overwritten:  # all before an overwritten position goes, too
            self._forget(number, most)
        self.head = int(cells[-1]) + 1

    def _slots_in(self, cells: npt.NDArray[np.intp]) -> list[int]:
        return [int(number) for number in np.unique(self.slot[cells][self.pos[cells] != _EMPTY])]

    def _find(self, count: int) -> npt.NDArray[np.intp] | None:
        head = 0 if self.head > self.used + 2 * count else self.head
        if head + count <= len(self.pos) and self._free(slice(head, head + count)).all():
            return np.arange(head, head + count)
        cells = np.flatnonzero(self._free(slice(None)))
        if len(cells) < count:
            return None
        after = int(np.searchsorted(cells, head))
        return np.concatenate((cells[after:], cells[:after]))[:count]

    def _free(self, cells: slice) -> npt.NDArray[np.bool_]:
        pos = self.pos[cells]
        out_of_reach = np.asarray(self.last)[self.slot[cells]] + 1 - pos >= self.window
        free: npt.NDArray[np.bool_] = (pos == _EMPTY) | out_of_reach
        return free

    def _forget(self, slot: int, most: int) -> None:
        """Free the rest of the positions up to an overwritten one."""
        left = self.pos <= most
        left &= (self.slot == slot) & (self.pos >= self.first[slot])
        self._empty(left)
        self.first[slot] = most + 1

    def _empty(self, cells: npt.NDArray[np.bool_]) -> None:
        if number := int(np.count_nonzero(cells)):
            self.pos[cells] = _EMPTY
            self.used -= number
            self.head = min(self.head, int(cells.argmax()))

    def cut(self, slot: int, begin: int) -> None:
        """Free the cells of the positions from `begin` on."""
        if self.last[slot] < begin:
            return
        self._empty((self.slot == slot) & (self.pos >= begin))
        if self.first[slot] >= begin:
            self.first[slot] = self.last[slot] = _EMPTY
        else:
            self.last[slot] = begin - 1

    def move(self, slot: int, begin: int, end: int, to: int) -> None:
        """Move the positions from `begin` to before `end` of a slot to `to`; positions in between are freed."""
        mine = self.slot == slot
        self._empty(mine & (self.pos >= to) & (self.pos < begin))
        self.pos[mine & (self.pos >= begin) & (self.pos < end)] -= begin - to
        held = self.pos[mine & (self.pos != _EMPTY)]
        self.first[slot], self.last[slot] = int(held.min()), int(held.max())
        self.head = 0

    def saved(self, slot: int) -> Positions:
        """Return the saved part of a slot, in the order of the cells: the positions that its window still reaches."""
        reached: Positions = self.pos[
            (self.slot == slot) & (self.pos > self.last[slot] - self.window) & (self.pos != _EMPTY)
        ]
        return reached

    def restore(self, slot: int, positions: Positions) -> None:
        """Replace all of the slot's positions by a saved checkpoint."""
        self.cut(slot, 0)
        if len(positions):
            done = self.put(slot, positions)
            assert done, "a pool has room for the windows of all slots"
            self.first[slot], self.last[slot] = int(positions.min()), int(positions.max())

    def check(self) -> None:
        """Assert the invariants between two requests."""
        assert self.used == np.count_nonzero(self.pos != _EMPTY)
        for slot, (first, last) in enumerate(zip(self.first, self.last, strict=True)):
            held = np.sort(self.pos[(self.slot == slot) & (self.pos != _EMPTY)])
            assert held.tolist() == ([] if first == _EMPTY else list(range(first, last + 1)))
