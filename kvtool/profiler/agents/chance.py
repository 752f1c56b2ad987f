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


class Change(NamedTuple):
    """`a[a0:a1]` of a first text became `b[b0:b1]` of a second one; all are characters."""

    a0: int
    a1: int
    b0: int
    b1: int


class Chance:
    """A prompt, and the same prompt of a second run: what differs between the two is chance.

    Where both have the same words, chance is their order between the first and the last place that differs.
    """

    def __init__(self, text: str, again: str) -> None:
        self._text = text
        found = list(changes(text, again))
        self._values = [_whole_value(text, again, change) for change in found]
        self._shuffled = None
        if len(found) > 1 and Counter(_WORD.findall(text)) == Counter(_WORD.findall(again)):
            self._shuffled = found[0].a0, found[-1].a1

    def first_change(self, other: str) -> tuple[int, DifferenceKind] | None:
        """Return the first character of another prompt that differs by more than chance, and what it is; None where none does."""
        left = [each for change in changes(self._text, other) if (each := self._beyond_values(change)) is not None]
        first = next(iter(self._beyond_order(left, other)), None)
        return None if first is None else (first.b0, value_around(self._text, first[:2], other, first[2:]).kind)

    def _beyond_values(self, change: Change) -> Change | None:
        """Return the part of a change that is in no value of chance; None where all of it is."""
        a0, a1, b0, b1 = change
        for low, high in self._values:
            if low <= a0 and a1 <= high and (a0 < a1 or low < a0 < high or low == high):
                return None
            if low <= a0 < high < a1:  # chance, and more after it
                a0, b0 = high, min(b0 + high - a0, b1)
        return Change(a0, a1, b0, b1)

    def _beyond_order(self, left: Sequence[Change], other: str) -> Iterator[Change]:
        """Yield the changes that are more than another order of the words that chance has in any order."""
        low, high = self._shuffled or (0, 0)
        inside = [each for each in left if self._shuffled and low <= each.a0 and each.a1 <= high]
        was = Counter(word for each in inside for word in _WORD.findall(self._text[each.a0 : each.a1]))
        now = Counter(word for each in inside for word in _WORD.findall(other[each.b0 : each.b1]))
        odd = set(was - now) | set(now - was)
        for each in left:
            words = {*_WORD.findall(self._text[each.a0 : each.a1]), *_WORD.findall(other[each.b0 : each.b1])}
            if each not in inside or words & odd:
                yield each


def changes(a: str, b: str) -> Iterator[Change]:
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
            yield Change(starts_a[ends[0]], starts_a[following.a_start], starts_b[ends[1]], starts_b[following.b_start])


def _words(text: str, names: dict[str, int]) -> tuple[list[int], list[int]]:
    """Return where each word begins, with the end of the text, and a number for each word."""
    starts: list[int] = []
    words: list[int] = []
    for match in _WORD.finditer(text):
        starts.append(match.start())
        words.append(names.setdefault(match[0], len(names)))
    return [*starts, len(text)], words


def _whole_value(a: str, b: str, change: Change) -> tuple[int, int]:
    """Return the characters of the value that a change is in: a clock that ran a second may run an hour in the next run."""
    value = value_around(a, change[:2], b, change[2:]).a
    low, high = min(change.a0, value[0]), max(change.a1, value[1])
    while low and not a[low - 1].isspace():
        low -= 1
    while high < len(a) and not a[high].isspace():
        high += 1
    return low, high
