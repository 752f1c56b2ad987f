"""Stretches of two prompts beside each other, and the template variables in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from kvtool.diagnose.slots import source_variable
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Origin, line_around, marks_of
from kvtool.workload.turn import RequestName

_EXCERPT = 160
"""Characters of a line that are kept."""
_MOST_TRIMMED = 256
"""Characters at either end of a gap that may be equal: no more than its outer tokens have."""
_MOST_LINES = 16
_MOST_CHARACTERS = 4096


class PromptSide(NamedTuple):
    """Characters `[start, stop)` of one of the two prompts."""

    text: str
    start: int
    stop: int

    def __str__(self) -> str:
        return str.__getitem__(self.text, slice(self.start, self.stop))


class VariableAt(NamedTuple):
    """The text of a template variable: its characters `[start, stop)`, from `offset` of the origin's text on."""

    origin: Origin
    start: int
    stop: int
    offset: int
    value: str


class Sources:
    """The marks of a text, to be asked by character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks = marks_of(text)
        self._starts = list(accumulate((mark.length for mark in self._marks), initial=0))
        self.has_variables = any(mark.origin is not None and mark.origin.variable is not None for mark in self._marks)

    def origin(self, char: int) -> tuple[Origin | None, int]:
        """Return the origin of a character, or of the last one, and the offset in the origin's text; None for what is no source
        text.
        """
        at = min(bisect_right(self._starts, char), len(self._marks)) - 1
        if at < 0:
            return None, 0
        length, origin, offset = self._marks[at]
        if origin is not None and origin.variable is not None and not source_variable(origin, self._value(at)):
            return None, 0
        return origin, offset + min(char - self._starts[at], length)

    def said(self, start: int, stop: int) -> tuple[Origin | None, int]:
        """Return the origin of the first character in `[start, stop)` that no chat template wrote; of `start` where there is
        none.
        """
        at = max(bisect_right(self._starts, start) - 1, 0)
        while at < len(self._marks) and self._starts[at] < stop:
            origin = self._marks[at].origin
            if self._starts[at + 1] > start and origin is not None and origin.part != "chat template":
                return self.origin(max(self._starts[at], start))
            at += 1
        return self.origin(start)

    def variables(self, start: int, stop: int) -> Iterator[VariableAt]:
        """Yield the values of template variables that overlap `[start, stop)`."""
        at = max(bisect_right(self._starts, start) - 1, 0)
        while at < len(self._marks) and self._starts[at] < stop:
            length, origin, offset = self._marks[at]
            if origin is not None and origin.variable is not None and self._starts[at] + length > start:
                value = self._value(at)
                if source_variable(origin, value):
                    yield VariableAt(origin, self._starts[at], self._starts[at] + length, offset, value)
            at += 1

    def _value(self, at: int) -> str:
        start = self._starts[at]
        return str.__getitem__(self._text, slice(start, start + self._marks[at].length))


def char_span(prompt: Prompt, start: int, stop: int) -> tuple[int, int]:
    """Return the characters of tokens `[start, stop)` of a prompt with text; where there are none, the place between characters."""
    if start >= len(prompt):
        end = len(prompt.text or "")
        return end, end
    first, last = prompt.char_range(start), prompt.char_range(max(stop - 1, start))
    assert first is not None, "a prompt without text"
    assert last is not None
    return first[0], max(first[0], last[1]) if stop > start else first[0]


def trimmed(own: PromptSide, theirs: PromptSide | None) -> tuple[PromptSide, PromptSide | None]:
    """Return both sides without the characters that they begin and end with alike: their outer tokens may share some."""
    if theirs is None:
        return own, None
    most = min(own.stop - own.start, theirs.stop - theirs.start)
    a, b = str(own), str(theirs)
    front = next((n for n in range(min(most, _MOST_TRIMMED)) if a[n] != b[n]), min(most, _MOST_TRIMMED))
    most = min(most - front, _MOST_TRIMMED)
    back = next((n for n in range(most) if a[-1 - n] != b[-1 - n]), most)
    return (
        PromptSide(own.text, own.start + front, own.stop - back),
        PromptSide(theirs.text, theirs.start + front, theirs.stop - back),
    )


def by_line(own: PromptSide, theirs: PromptSide | None) -> Iterator[tuple[PromptSide, PromptSide | None]]:
    """Yield pairs of lines that differ, where both sides have the same few; else both as they are."""
    lines = str(own).split("\n") if own.stop - own.start <= _MOST_CHARACTERS else []
    others = str(theirs).split("\n") if theirs is not None and lines else []
    if theirs is None or not 1 < len(lines) == len(others) <= _MOST_LINES:
        yield own, theirs
        return
    at, there = own.start, theirs.start
    for line, other in zip(lines, others, strict=True):
        if line != other:
            yield trimmed(PromptSide(own.text, at, at + len(line)), PromptSide(theirs.text, there, there + len(other)))
        at, there = at + len(line) + 1, there + len(other) + 1


def is_whole(empty: PromptSide, full: PromptSide) -> bool:
    """Return whether one side lacks what the other has, whole words of it: no part of a longer word or of a longer row of one
    sign.
    """
    if empty.stop > empty.start or full.start == full.stop:
        return False
    text = full.text
    before = text[full.start - 1 : full.start] if full.start else ""
    first, last, after = text[full.start], text[full.stop - 1], text[full.stop : full.stop + 1]
    return not any(
        (left.isalnum() and right.isalnum()) or (left == right and not left.isspace())
        for left, right in ((before, first), (last, after))
    )


class LineExcerpt(NamedTuple):
    """A line of a prompt, or a part of a long one, and the range of what is meant in it."""

    text: str
    start: int
    stop: int

    @classmethod
    def around(cls, text: str, low: int, high: int) -> LineExcerpt:
        """Return the line that `text[low:high]` begins in."""
        start, stop = line_around(text, low)
        start = max(start, low - _EXCERPT // 2)
        stop = min(stop, start + _EXCERPT)
        return cls(str.__getitem__(text, slice(start, stop)).rstrip("\r\n"), low - start, high - start)


@dataclass(frozen=True, slots=True)
class RequestPair:
    """An earlier request and a later one; `was` and `now` are what each has where they differ."""

    earlier: RequestName
    later: RequestName
    was: LineExcerpt
    now: LineExcerpt


def example_pair_of(earlier: RequestName, later: RequestName, was: PromptSide, now: PromptSide) -> RequestPair:
    """Return the pair, with the lines in which the two sides begin."""
    return RequestPair(
        earlier,
        later,
        LineExcerpt.around(was.text, was.start, was.stop),
        LineExcerpt.around(now.text, now.start, now.stop),
    )


def widened(side: PromptSide, other: PromptSide, low: int, high: int) -> PromptSide:
    """Return the other side of a whole value: `side` is the part of `side.text[low:high]` that differs, `other` what is there.

    What is around both is the same; where it is not, `other` is as it was.
    """
    before, behind = max(side.start - low, 0), max(high - side.stop, 0)
    wide = PromptSide(other.text, other.start - before, other.stop + behind)
    if wide.start < 0 or wide.stop > len(other.text):
        return other
    same = str.startswith(
        other.text, str.__getitem__(side.text, slice(low, side.start)), wide.start
    ) and str.startswith(other.text, str.__getitem__(side.text, slice(side.stop, high)), other.stop)
    return wide if same else other
