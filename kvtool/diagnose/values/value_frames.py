"""What stands beside the values of a slot on their line: it finds each of them, whatever a single value looks like."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.diagnose.compare.units import common_prefix, common_suffix

_SIDE = 80
"""Characters of either side that are kept."""
_LONGEST_VALUE = 512


_WIDER = 24
"""Characters by which one value may begin before, or end behind, another one of the same line: `Ms. Ada` and `Ada`."""


class Frame(NamedTuple):
    """The text before and behind a value on its line; a line end in it is where the line begins or ends."""

    before: str
    after: str

    @classmethod
    def around(cls, text: str, low: int, high: int, start: int, stop: int) -> Frame:
        """The frame of `text[low:high]` in a message that is `text[start:stop]`."""
        plain = str.__str__(text)
        first = plain.rfind("\n", max(low - _SIDE, start), low) + 1
        before = f"\n{plain[first:low]}" if first else plain[max(low - _SIDE, start) : low]
        if not first and low - _SIDE <= start:
            before = f"\n{before}"
        end = plain.find("\n", high, min(high + _SIDE, stop))
        after = f"{plain[high:end]}\n" if end >= 0 else plain[high : min(high + _SIDE, stop)]
        if end < 0 and high + _SIDE >= stop:
            after += "\n"
        return cls(before, after)

    def narrowed(self, other: Frame) -> Frame:
        """What two values of a slot have beside them alike."""
        if other.before.endswith(self.before) and other.after.startswith(self.after):
            return self
        return Frame(_before_both(self.before, other.before), _behind_both(self.after, other.after))

    @property
    def is_telling(self) -> bool:
        """Whether it says where a value begins and ends, and not of every line."""
        if not self.before or not self.after or not f"{self.before}{self.after}".strip():
            return False
        return all(side.strip() or "\n" in side for side in self)

    def value_in(self, line: str) -> tuple[int, int] | None:
        """Where the value stands in a line that has the frame; the line has a line end before and behind it where it is whole."""
        if not self.is_telling:
            return None
        start = line.find(self.before)
        if start < 0:
            return None
        start += len(self.before)
        stop = line.find(self.after, start)
        return (start, stop) if start < stop <= start + _LONGEST_VALUE else None


def _before_both(one: str, other: str) -> str:
    """What stands before two values: from the beginning of the line to the one that begins first, else what they end with alike."""
    short, long = sorted((one, other), key=len)
    if short.startswith("\n") and len(short) > 1 and long.startswith(short) and len(long) - len(short) <= _WIDER:
        return short
    return short[len(short) - common_suffix(short, long, len(short)) :]


def _behind_both(one: str, other: str) -> str:
    """The same behind two values."""
    short, long = sorted((one, other), key=len)
    if short.endswith("\n") and len(short) > 1 and long.endswith(short) and len(long) - len(short) <= _WIDER:
        return short
    return short[: common_prefix(short, long)]
