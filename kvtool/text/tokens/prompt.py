"""A tokenized prompt whose tokens know where they came from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.text.traced import Traced

Ids = npt.NDArray[np.int32]


@dataclass(slots=True)
class Prompt:
    """Token ids `[n]` and, where there is text, the way back to it.

    The text was cut into pieces where the pre-tokenizer splits in any case: piece i holds the characters from `char_starts[i]` and
    the tokens from `token_starts[i]`. `offsets` encodes one piece again to give the character range of each of its tokens; so the
    mapping costs nothing until somebody asks.
    """

    ids: Ids
    text: Traced | None = None
    char_starts: list[int] | None = None
    token_starts: list[int] | None = None
    offsets: Callable[[str], list[tuple[int, int]]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def char_range(self, token: int) -> tuple[int, int] | None:
        """Start and end in `text` of a token; None where the prompt has no text."""
        if self.text is None or self.char_starts is None or self.token_starts is None or self.offsets is None:
            return None
        if not self.token_starts or token < self.token_starts[0]:
            return 0, 0
        piece = bisect_right(self.token_starts, token) - 1
        start = self.char_starts[piece]
        stop = self.char_starts[piece + 1] if piece + 1 < len(self.char_starts) else len(self.text)
        ranges = self.offsets(str.__getitem__(self.text, slice(start, stop)))
        within = token - self.token_starts[piece]
        if within >= len(ranges):
            return stop, stop
        left, right = ranges[within]
        return start + left, start + right

    def char_before(self, token: int) -> int | None:
        """A character at or before the first one of a token, found without encoding anything; None where there is no text."""
        if self.text is None or self.char_starts is None or self.token_starts is None:
            return None
        if not self.token_starts or token < self.token_starts[0]:
            return 0
        return self.char_starts[bisect_right(self.token_starts, token) - 1]

    def token_at(self, char: int) -> int:
        """The token that covers character `char` of the text (the number of tokens where it is past the end)."""
        if self.char_starts is None or self.token_starts is None or self.offsets is None or self.text is None:
            raise ValueError("the prompt has no text")
        if char >= len(self.text):
            return len(self.ids)
        piece = bisect_right(self.char_starts, char) - 1
        start = self.char_starts[piece]
        stop = self.char_starts[piece + 1] if piece + 1 < len(self.char_starts) else len(self.text)
        ranges = self.offsets(str.__getitem__(self.text, slice(start, stop)))
        return self.token_starts[piece] + bisect_right(ranges, char - start, key=_stop)


def _stop(span: tuple[int, int]) -> int:
    return span[1]
