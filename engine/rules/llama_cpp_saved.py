"""Prompts that llama.cpp's server saves in host memory: a list from the oldest to the newest."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kvtool.engine.rules.llama_cpp_prefix import TOKEN_BYTES, common_prefix, length
from kvtool.engine.rules.llama_cpp_window import Positions, WindowCheckpoint

_LEAST_KEPT = np.float32(0.25)
"""A saved prompt of which less would be reused stays where it is."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedPrompt:
    """A token list, the positions whose window was written out, its checkpoints, and the bytes of all of it."""

    tokens: bytes
    window: Positions | None
    checkpoints: tuple[WindowCheckpoint, ...]
    num_bytes: int


class SavedPrompts:
    """The list with its limit: bytes, or where there is none, tokens. No prompt in it begins with another."""

    def __init__(self, most_bytes: int | None, most_tokens: int) -> None:
        self.most_bytes = most_bytes
        self.most_tokens = most_tokens
        self.prompts: dict[bytes, SavedPrompt] = {}
        """By their tokens, the oldest first."""
        self.num_bytes = 0
        self.num_tokens = 0
        self.num_dropped = 0
        """Tokens that went for want of room, so far."""
        self._sorted: list[
            bytes
        ] = []  # so that what begins with a prompt stands behind it, and its own start before it

    def covers(self, tokens: bytes) -> bool:
        """Return whether a saved prompt begins with these tokens."""
        index = bisect_left(self._sorted, tokens)
        return index < len(self._sorted) and self._sorted[index].startswith(tokens)

    def save(self, new: SavedPrompt) -> None:
        """Add a prompt that none covers, in place of the one that it covers and of the oldest beyond the limit of bytes.

        What is larger than the whole list may be is not added, and drops nothing.
        """
        assert not self.covers(new.tokens), "only what is not there yet is saved"
        if self.most_bytes is not None and new.num_bytes > self.most_bytes:
            return
        index = bisect_left(self._sorted, new.tokens)
        if index and new.tokens.startswith(self._sorted[index - 1]):
            self.remove(self.prompts[self._sorted[index - 1]])
        while self.most_bytes is not None and self.num_bytes + new.num_bytes > self.most_bytes:
            self._drop_oldest()
        self.prompts[new.tokens] = new
        insort(self._sorted, new.tokens)
        self.num_bytes += new.num_bytes
        self.num_tokens += length(new.tokens)

    def better(self, held: bytes, prompt: bytes) -> SavedPrompt | None:
        """Return the prompt that serves better than what a slot holds: more of it is common, and a larger part of it is.

        Both must be more than those of the best so far, from the oldest on.
        """
        shared = common_prefix(held, prompt)
        part = np.float32(shared) / np.float32(length(held)) if held else np.float32(-1)
        best = None
        for tokens, saved in self.prompts.items():
            size = length(tokens)
            least = max(shared + 1, int(max(part, _LEAST_KEPT) * size) - 1)  # float32 may be a token off
            if not tokens.startswith(prompt[: least * TOKEN_BYTES]):
                continue
            common = common_prefix(tokens, prompt)
            mine = np.float32(common) / np.float32(size)
            if common > shared and mine >= _LEAST_KEPT and mine > part:
                shared, part, best = common, mine, saved
        return best

    def remove(self, saved: SavedPrompt) -> None:
        """Take a prompt out of the list."""
        del self.prompts[saved.tokens]
        del self._sorted[bisect_left(self._sorted, saved.tokens)]
        self.num_bytes -= saved.num_bytes
        self.num_tokens -= length(saved.tokens)

    def trim(self) -> None:
        """Where there is no limit of bytes: drop the oldest beyond the one of tokens."""
        while self.most_bytes is None and self.num_tokens > self.most_tokens:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = next(iter(self.prompts.values()))
        self.remove(oldest)
        self.num_dropped += length(oldest.tokens)

    def check(self) -> None:
        """What holds between two requests."""
        assert self._sorted == sorted(self.prompts)
        assert not any(after.startswith(before) for before, after in pairwise(self._sorted))
        assert self.num_bytes == sum(saved.num_bytes for saved in self.prompts.values())
        assert self.num_tokens == sum(length(tokens) for tokens in self.prompts)
        assert self.most_bytes is None or self.num_bytes <= self.most_bytes
        assert self.most_bytes is not None or self.num_tokens <= self.most_tokens
