"""Earlier parts of a trace's prompts, and their repeated blocks: by number, without a tree."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from kvtool.accounting.ledger.sums import Booked
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.engine.blocks.chain_numbers import Chain, run_length

_TOGETHER = 1 << 16
"""Runs whose blocks are summed at a time; bounds memory."""


class TraceBook:
    """Keep the new part of each prompt, as a run of numbers, and a flag for each number.

    Lengths are blocks of `unit` tokens. Memory: a byte for each distinct block, and some words for each prompt with new ones.
    """

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self._again = bytearray(1)
        """True if a later prompt had the block, by number of `Chain.content`."""
        self._owners = array("i")
        self._firsts = array("i")
        """The number of each run's first block, that block's place in the prompt, and the number of blocks."""
        self._places = array("i")
        self._counts = array("i")

    def enter(self, owner: int, chain: Chain, num_tokens: int) -> None:
        """Mark a prompt's shared blocks, and keep its new ones."""
        content, known, again = chain.content, chain.known, self._again
        count = len(content)
        if known:
            at = 0
            while at < known:  # numbers that follow each other are marked together
                first, length = content[at], run_length(content, at, known)
                again[first : first + length] = b"\1" * length
                at += length
        if count > known or count * self.unit < num_tokens:
            first = content[known] if count > known else 0
            self._owners.append(owner)
            self._firsts.append(first)
            self._places.append(known)
            self._counts.append(count - known)
        missing = (content[-1] if count else 0) + 1 - len(again)
        if missing > 0:
            again.extend(bytes(missing))

    def enter_all(self, first_owner: int, batch: TracedBatch) -> None:
        """Enter many prompts with consecutive owners."""
        rows = batch.rows()
        new = rows.blocks - rows.known_blocks
        (some,) = ((new > 0) | (rows.blocks * self.unit < rows.tokens)).nonzero()
        for kept, added in (
            (self._owners, first_owner + some),
            (self._firsts, rows.first_new[some]),
            (self._places, rows.known_blocks[some]),
            (self._counts, new[some]),
        ):
            kept.frombytes(added.astype(np.intc).tobytes())
        marks = np.frombuffer(batch.again, np.intc)
        missing = max(int((rows.first_new + new).max(initial=0)), int(marks.max(initial=0)) + 1) - len(self._again)
        if missing > 0:
            self._again.extend(bytes(missing))
        np.frombuffer(self._again, np.uint8)[marks] = 1

    def first_uses(self, tokens: array[int]) -> Iterator[tuple[int, int]]:
        """Return by owner the new tokens that later prompts had, too; `tokens` are those of each owner's prompt."""
        again = np.frombuffer(self._again, dtype=np.uint8)
        of_owner = np.frombuffer(tokens, dtype=np.int64)
        for start in range(0, len(self._owners), _TOGETHER):
            owners, firsts, places, counts = (
                np.frombuffer(each, dtype=np.intc)[start : start + _TOGETHER].astype(np.int64)
                for each in (self._owners, self._firsts, self._places, self._counts)
            )
            some = counts > 0
            owners, firsts, places, counts = owners[some], firsts[some], places[some], counts[some]
            if not len(owners):
                continue
            ends = np.column_stack([firsts, firsts + counts]).ravel()
            padded = ends if ends[-1] < len(again) else ends[:-1]
            blocks = np.add.reduceat(again, padded, dtype=np.int64)[::2]
            prompts = of_owner[owners]
            last = again[firsts + counts - 1] > 0
            lacking = np.where(last, np.maximum((places + counts) * self.unit - prompts, 0), 0)
            found = np.where(prompts > 0, blocks * self.unit - lacking, 0)
            hit = found > 0
            yield from zip(owners[hit].tolist(), found[hit].tolist(), strict=True)

    def fates(self, tokens: array[int]) -> Iterator[tuple[int, Booked]]:
        """Return by owner all new tokens, as `first_use` or `unique`; `tokens` are those of each owner's prompt."""
        again, unit = self._again, self.unit
        for owner, first, place, count in zip(self._owners, self._firsts, self._places, self._counts, strict=True):
            end, at = tokens[owner], 0
            while at < count:
                flag = again[first + at]
                stop = again.find(1 - flag, first + at, first + count)
                length = (count if stop < 0 else stop - first) - at
                left, right = (place + at) * unit, min((place + at + length) * unit, end)
                if left < right:
                    yield owner, Booked(left, right, "first_use" if flag else "unique")
                at += length
            if (place + count) * unit < end:  # a last block that the trace does not name
                yield owner, Booked((place + count) * unit, end, "unique")
