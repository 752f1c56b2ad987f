"""Text of new blocks that occurred before, after another beginning: tokens that a changed prompt could have hit."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence

import numpy as np

from kvtool.measure.servers.kv_events.event_state import BlockName

_RUN = 16
"""Tokens in a row that must be the same: a block of vLLM's default size."""
_MOST_RUNS = 1_000_000
_MOST_CHILDREN = 100_000
_MOST_PLACES = 10_000
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class RepeatedText:
    """Remembers runs of tokens of what was computed, and the first block after each prefix; both are bounded."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, None] = OrderedDict()
        self._children: OrderedDict[BlockName, Sequence[int]] = OrderedDict()
        self._differences: Counter[int] = Counter()

    @property
    def first_difference(self) -> int | None:
        """Return the token, from 1, at which prompts diverge before most of the repeated text."""
        return self._differences.most_common(1)[0][0] if self._differences else None

    def forget_differences(self) -> None:
        """Forget the places of differences, and keep the text."""
        self._differences.clear()

    def take(self, tokens: Sequence[int], size: int, place: int, parent: BlockName | None) -> int:
        """Return how many of these tokens occurred before, and remember them.

        `place` is the number of tokens before them, `parent` the prefix before them where their first block is a new one after it.
        """
        hashes = _run_hashes(tokens)
        covered = np.zeros(len(tokens), dtype=bool)
        for at in [at for at, each in enumerate(hashes) if each in self._runs]:
            covered[at : at + _RUN] = True
        for each in hashes[::_RUN]:
            self._runs[each] = None
        while len(self._runs) > _MOST_RUNS:
            self._runs.popitem(last=False)
        repeated = int(covered.sum())
        if parent is not None:
            first = self._children.get(parent)
            if first is None:
                self._children[parent] = tokens[:size]
            elif repeated and len(self._differences) < _MOST_PLACES:
                self._differences[place + _common(first, tokens) + 1] += repeated
            while len(self._children) > _MOST_CHILDREN:
                self._children.popitem(last=False)
        return repeated


def _run_hashes(tokens: Sequence[int]) -> list[int]:
    """Return a hash of each run of tokens."""
    values = np.asarray(tokens, dtype=np.uint64)
    count = len(values) - _RUN + 1
    if count <= 0:
        return []
    found = np.zeros(count, dtype=np.uint64)
    for at in range(_RUN):
        found = (found ^ (values[at : at + count] + np.uint64(1))) * _FACTOR
        found ^= found >> np.uint64(29)
    return found.tolist()


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
