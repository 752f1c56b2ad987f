"""Source places of a prompt's tokens."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import marks_of


class WrittenPlace(NamedTuple):
    """A file, a line in it (0: unknown) and the message, segment or template that the text belongs to.

    Of a logged value the line is that on which its record begins.
    """

    path: str
    line: int
    part: str


NOWHERE = WrittenPlace("", 0, "")


class WrittenPlaces:
    """The places of a prompt's tokens."""

    def __init__(self, prompt: Prompt | None) -> None:
        self._prompt = prompt
        self._marks = marks_of(prompt.text) if prompt is not None and prompt.text is not None else ()
        self._ends = list(accumulate(mark.length for mark in self._marks))

    def first(self, start: int, stop: int) -> WrittenPlace:
        """Return the first known place of tokens `[start, stop)`: a chat template's text around messages has none."""
        if self._prompt is None or not self._marks or start >= stop:
            return NOWHERE
        begin, end = self._prompt.char_range(start), self._prompt.char_range(stop - 1)
        if begin is None or end is None:
            return NOWHERE
        char = begin[0]
        at = bisect_right(self._ends, char)
        while at < len(self._marks) and char < end[1]:
            origin, offset = self._marks[at].origin, self._marks[at].offset
            if origin is not None:
                within = char - (self._ends[at] - self._marks[at].length)
                return WrittenPlace(origin.path, origin.position(offset + within)[0], origin.part)
            char = self._ends[at]
            at += 1
        return NOWHERE
