"""Two requests of a log that differ in one place, kept as the example of a cause: which they are, and the two lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvtool.diagnose.differing_ranges import PromptSide
from kvtool.text.traced import line_around
from kvtool.workload.turn import RequestName

_EXCERPT = 160
"""Characters of a line that are kept."""


class LineExcerpt(NamedTuple):
    """A line of a prompt, or a part of a long one, and the range of what is meant in it."""

    text: str
    start: int
    stop: int

    @classmethod
    def around(cls, text: str, low: int, high: int) -> LineExcerpt:
        """The line that `text[low:high]` begins in."""
        start, stop = line_around(text, low)
        start = max(start, low - _EXCERPT // 2)
        stop = min(stop, start + _EXCERPT)
        return cls(str.__getitem__(text, slice(start, stop)).rstrip("\r\n"), low - start, high - start)


@dataclass(frozen=True, slots=True)
class SeenPair:
    """An earlier request and a later one; `was` and `now` are what each has where they differ."""

    earlier: RequestName
    later: RequestName
    was: LineExcerpt
    now: LineExcerpt


def seen_pair(earlier: RequestName, later: RequestName, was: PromptSide, now: PromptSide) -> SeenPair:
    """The pair, with the lines in which the two sides begin."""
    return SeenPair(
        earlier,
        later,
        LineExcerpt.around(was.text, was.start, was.stop),
        LineExcerpt.around(now.text, now.start, now.stop),
    )


def widened(side: PromptSide, other: PromptSide, low: int, high: int) -> PromptSide:
    """The other side of a whole value: `side` is the part of `side.text[low:high]` that differs, `other` what stands there.

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
