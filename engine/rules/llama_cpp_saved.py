"""Prompts that llama.cpp's server saves in host memory: a list from the oldest to the newest."""

from __future__ import annotations

from dataclasses import dataclass

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
    """The list with its limit: bytes, or where there is none, tokens."""

    def __init__(self, most_bytes: int | None, most_tokens: int) -> None:
        self.most_bytes = most_bytes
        self.most_tokens = most_tokens
        self.prompts: list[SavedPrompt] = []
        self.num_bytes = 0
        self.num_tokens = 0

    def covers(self, tokens: bytes) -> bool:
        """Whether a saved prompt begins with these tokens."""
        return any(saved.tokens.startswith(tokens) for saved in self.prompts)

    def save(self, new: SavedPrompt) -> int:
        """Add a prompt that none covers, in place of those that it covers; how many tokens of others went for want of room.

        What is larger than the whole list may be is not added, and drops nothing.
        """
        if self.most_bytes is not None and new.num_bytes > self.most_bytes:
            return 0
        for saved in [saved for saved in self.prompts if new.tokens.startswith(saved.tokens)]:
            self.remove(saved)
        lost = 0
        while self.most_bytes is not None and self.num_bytes + new.num_bytes > self.most_bytes:
            lost += self._drop_oldest()
        self.prompts.append(new)
        self.num_bytes += new.num_bytes
        self.num_tokens += length(new.tokens)
        return lost

    def better(self, held: bytes, prompt: bytes) -> SavedPrompt | None:
        """The prompt that serves better than what a slot holds: more of it is common, and a larger part of it is."""
        shared = common_prefix(held, prompt)
        part = np.float32(shared) / np.float32(length(held)) if held else np.float32(-1)
        best = None
        for saved in self.prompts:
            if not saved.tokens.startswith(prompt[: (shared + 1) * TOKEN_BYTES]):
                continue  # no more of it is common than of the best so far
            common = common_prefix(saved.tokens, prompt)
            mine = np.float32(common) / np.float32(length(saved.tokens))
            if common > shared and mine >= _LEAST_KEPT and mine > part:
                shared, part, best = common, mine, saved
        return best

    def remove(self, saved: SavedPrompt) -> None:
        """Take a prompt out of the list."""
        self.prompts.remove(saved)
        self.num_bytes -= saved.num_bytes
        self.num_tokens -= length(saved.tokens)

    def trim(self) -> int:
        """Where there is no limit of bytes: drop the oldest beyond the one of tokens; how many tokens went."""
        lost = 0
        while self.most_bytes is None and self.num_tokens > self.most_tokens:
            lost += self._drop_oldest()
        return lost

    def _drop_oldest(self) -> int:
        oldest = self.prompts[0]
        self.remove(oldest)
        return length(oldest.tokens)

    def check(self) -> None:
        """What holds between two requests."""
        assert self.num_bytes == sum(saved.num_bytes for saved in self.prompts)
        assert self.num_tokens == sum(length(saved.tokens) for saved in self.prompts)
        assert self.most_bytes is None or self.num_bytes <= self.most_bytes
        assert self.most_bytes is not None or self.num_tokens <= self.most_tokens
