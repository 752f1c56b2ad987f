"""What differs between two prompts beyond chance: beyond what differs between two runs in which nothing was changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.compare.passages import value_around
from kvtool.text.align import EqualRun, align_items

_WORD = re.compile(r"\w+|\s|[^\w\s]")
_NAME = re.compile(r"\w+")
_OF_VALUE = re.compile(r"[\w.:/+~@%-]")
"""Characters that go on with a value: a time, a path, an id."""


class TextChange(NamedTuple):
    """`a[a0:a1]` of a first text became `b[b0:b1]` of a second one; all are characters."""

    a0: int
    a1: int
    b0: int
    b1: int


class _Value(NamedTuple):
    """A value of chance: its characters, and how many of them are white space in either run."""

    low: int
    high: int
    spaces: int


class Chance:
    """A prompt, and the same prompt of a second run: what differs between the two is chance.

    Words that are in another place of the second prompt are in an order of chance, from the first to the last of them.
    """

    def __init__(self, text: str, again: str) -> None:
        self._text = text
        found = list(changes(text, again))
        was = {word for each in found for word in _named(text[each.a0 : each.a1])}
        now = {word for each in found for word in _named(again[each.b0 : each.b1])}
        moved = [
            each for each in found if {*_named(text[each.a0 : each.a1]), *_named(again[each.b0 : each.b1])} <= was & now
        ]
        self._shuffled = (moved[0].a0, moved[-1].a1) if len(moved) > 1 else None
        self._values = [_whole_value(text, again, each) for each in found if len(moved) < 2 or each not in moved]

    def first_change(self, other: str) -> tuple[int, DifferenceKind] | None:
        """Return the first character of another prompt that differs by more than chance, and what it is; None where none does."""
        left = [
            each for change in changes(self._text, other) if (each := self._beyond_values(change, other)) is not None
        ]
        first = next(self._beyond_order(left, other), None)
        return None if first is None else (first.b0, value_around(self._text, first[:2], other, first[2:]).kind)

    def _beyond_values(self, change: TextChange, other: str) -> TextChange | None:
        """Return the part of a change that is in no value of chance; None where all of it is."""
        a0, a1, b0, b1 = change
        for low, high, spaces in self._values:
            inside = low <= a0 and a1 <= high and (a0 < a1 or low < a0 < high or low == high)
            if inside and _spaces(other[b0:b1]) <= spaces:
                return None
            if low <= a0 < high < a1:  # chance, and more after it
                a0, b0 = high, min(b0 + high - a0, b1)
        return TextChange(a0, a1, b0, b1)

    def _beyond_order(self, left: Sequence[TextChange], other: str) -> Iterator[TextChange]:
        """Yield the changes that are more than another order of the words that chance has in any order."""
        low, high = self._shuffled or (0, 0)
        inside = [each for each in left if self._shuffled and low <= each.a0 and each.a1 <= high]
        was = Counter(word for each in inside for word in _named(self._text[each.a0 : each.a1]))
        now = Counter(word for each in inside for word in _named(other[each.b0 : each.b1]))
        odd = set(was - now) | set(now - was)
        for each in left:
            words = {*_named(self._text[each.a0 : each.a1]), *_named(other[each.b0 : each.b1])}
            if each not in inside or words & odd:
                yield each


def changes(a: str, b: str) -> Iterator[TextChange]:
    """Yield what differs between two texts, word by word, in order."""
    if a == b:
        return
    names: dict[str, int] = {}
    starts_a, words_a = _words(a, names)
    starts_b, words_b = _words(b, names)
    runs = [EqualRun(0, 0, 0), *align_items(words_a, words_b), EqualRun(len(words_a), len(words_b), 0)]
    for one, following in pairwise(runs):
        ends = one.a_start + one.length, one.b_start + one.length
        if (following.a_start, following.b_start) != ends:
            yield TextChange(
                starts_a[ends[0]], starts_a[following.a_start], starts_b[ends[1]], starts_b[following.b_start]
            )


def _words(text: str, names: dict[str, int]) -> tuple[list[int], list[int]]:
    """Return where each word begins, with the end of the text, and a number for each word."""
    starts: list[int] = []
    words: list[int] = []
    for match in _WORD.finditer(text):
        starts.append(match.start())
        words.append(names.setdefault(match[0], len(names)))
    return [*starts, len(text)], words


def _whole_value(a: str, b: str, change: TextChange) -> _Value:
    """Return the value that a change is in: a clock that ran a second may run an hour in the next run."""
    found = value_around(a, change[:2], b, change[2:])
    low, high = min(change.a0, found.a[0]), max(change.a1, found.a[1])
    spaces = max(_spaces(a[low:high]), _spaces(b[change.b0 : change.b1]))
    while low and _OF_VALUE.match(a[low - 1]):
        low -= 1
    while high < len(a) and _OF_VALUE.match(a[high]):
        high += 1
    return _Value(low, high, spaces)


def _named(text: str) -> list[str]:
    return _NAME.findall(text)


def _spaces(text: str) -> int:
    return sum(map(str.isspace, text))
