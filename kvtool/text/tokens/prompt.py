"""A tokenized prompt whose tokens know where they came from."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kvtool.text.traced import Traced

Ids = npt.NDArray[np.int32]
Spans = npt.NDArray[np.int32]
"""The first character and the end of each token of a text `[tokens, 2]`."""
Offsets = Callable[[str, Ids | None], Spans]
"""What says the characters of each token of a piece of text: see `Prompt`."""
Note = TypeVar("Note")


class Continued(NamedTuple):
    """The prompt `before` of the same conversation: so many messages (the same objects), characters and tokens at its front are
    those of this one."""

    before: Prompt
    messages: int
    chars: int
    tokens: int


@dataclass(slots=True)
class Prompt:
    """Token ids `[n]` and, where there is text, the way back to it.

    The text was cut into pieces where the pre-tokenizer splits in any case: piece i holds the characters from `char_starts[i]` and
    the tokens from `token_starts[i]`. `offsets` gives the character range of each token of one piece, from its text and its tokens
    (None: the piece is encoded again); so the mapping costs nothing until somebody asks.
    """

    ids: Ids
    text: Traced | None = None
    char_starts: array[int] | None = None
    token_starts: array[int] | None = None
    offsets: Offsets | None = None
    continued: Continued | None = field(default=None, compare=False, repr=False)
    """Its conversation so far, as long as it is the latest prompt of it."""
    notes: dict[type, object] = field(default_factory=dict, compare=False, repr=False)
    """What was found out of it and is to be used for the next prompt of its conversation, by its class."""

    def note_before(self, kind: type[Note]) -> tuple[Note, Continued] | None:
        """Return what was noted of the prompt that this one continues; None where there is nothing."""
        found = None if self.continued is None else self.continued.before.notes.get(kind)
        return (found, self.continued) if self.continued is not None and isinstance(found, kind) else None

    def forget_continued(self) -> None:
        """Forget its conversation so far, with what was noted of that."""
        if self.continued is not None:
            self.continued.before.notes.clear()
            self.continued = None

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
        ranges = self.piece_ranges(piece)
        within = token - self.token_starts[piece]
        if within >= len(ranges):
            stop = self.char_starts[piece + 1] if piece + 1 < len(self.char_starts) else len(self.text)
            return stop, stop
        left, right = ranges[within].tolist()
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
        ranges = self.piece_ranges(piece)
        return self.token_starts[piece] + int(ranges[:, 1].searchsorted(char - self.char_starts[piece], side="right"))

    def piece_ranges(self, piece: int) -> Spans:
        """The characters of each token of a piece, counted from where it begins; of a prompt with text."""
        assert self.text is not None
        assert self.char_starts is not None
        assert self.token_starts is not None
        assert self.offsets is not None
        start = self.char_starts[piece]
        if piece + 1 < len(self.char_starts):
            ids = self.ids[self.token_starts[piece] : self.token_starts[piece + 1]]
            return self.offsets(str.__getitem__(self.text, slice(start, self.char_starts[piece + 1])), ids)
        return self.offsets(
            str.__getitem__(self.text, slice(start, len(self.text))), None
        )  # what ends a prompt may follow
