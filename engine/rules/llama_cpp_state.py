"""Model llama.cpp's memory of layers with a state (Mamba, Gated DeltaNet, short convolutions): one a slot, of its last token."""

from __future__ import annotations

import numpy as np

from kvtool.engine.rules.llama_cpp_window import Positions

_EMPTY = -1


class StateCells:
    """One pool: a state cannot go back, so a slot has the position of its last token and no other."""

    def __init__(self, slots: int) -> None:
        self.last = [_EMPTY] * slots
        """The position of each slot's state; -1 for none."""

    @property
    def first(self) -> list[int]:
        """The smallest position of each slot."""
        return self.last

    def append(self, slot: int, tokens: int, _most: int) -> None:
        """Advance a state by so many tokens, in micro batches of any size."""
        self.last[slot] += tokens

    def cut(self, slot: int, begin: int) -> None:
        """Free the state if nothing stays before it. A shorter part has its checkpoint, restored before."""
        assert begin == 0 or self.last[slot] < begin, "a state cannot go back"
        if begin == 0:
            self.last[slot] = _EMPTY

    def move(self, slot: int, begin: int, end: int, to: int) -> None:
        """Move the state if its position is among the moved ones."""
        if begin <= self.last[slot] < end:
            self.last[slot] -= begin - to

    def saved(self, slot: int) -> Positions:
        """Return the position to save."""
        return np.array(self.last[slot : slot + 1], dtype=np.int64)

    def restore(self, slot: int, positions: Positions) -> None:
        """Replace the state by a saved one."""
        self.last[slot] = int(positions[-1]) if len(positions) else _EMPTY

    def check(self) -> None:
        """Assert the invariants."""
        assert all(last >= _EMPTY for last in self.last)
