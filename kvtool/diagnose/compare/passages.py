"""A stretch that is in both texts and differs: single values, or a passage that was written anew."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED, LIST_REORDERED
from kvtool.diagnose.codes.structure.kv142 import HISTORY_EDITED
from kvtool.diagnose.codes.structure.kv143 import CUT_SHORT, is_cut_short
from kvtool.diagnose.codes.values.kv102 import KV102, REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import KV104, USER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.compare.inline_items import LONGEST_LINE, reordered
from kvtool.diagnose.compare.order import is_short_list, order_kind, shuffled
from kvtool.diagnose.compare.units import common_prefix, common_suffix
from kvtool.diagnose.values.classify import DETECTORS, classify_in
from kvtool.diagnose.values.labels import kind_of_label, label_before
from kvtool.text.align import EqualRun, align_items
from kvtool.text.traced import line_around

_RANK = {key: rank for rank, key in enumerate(dict.fromkeys(kind.key for kind, _ in DETECTORS))}
_WHOSE = (KV102.code, KV104.code)
"""What a label may say of a bare number: that it is somebody's id."""
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_PASSAGE = 200_000
_MOST_CHUNKS = 48
"""Differing words from which on nobody would call them values; a timestamp has seven."""
_MOST_VALUES = 8
_LEAST_SHARED = 0.3
_MAX_VALUE = 256
_LONGEST_WORD = 256
_JOINED = 3
"""Characters between two unnamed differences, up to which they are one."""

Range = tuple[int, int]
Named = tuple[DifferenceKind, tuple[int, int, int, int]]
"""A kind and `a0, a1, b0, b1`: what it is about in either text."""


class Passage(NamedTuple):
    """`a[a0:a1]`, which became `b[b0:b1]`; `history` says that it is a part of the history."""

    a: str
    a0: int
    a1: int
    b: str
    b0: int
    b1: int
    history: bool


class Differing(NamedTuple):
    """The words that differ in a passage, as ranges of both texts: what values they are of is found out by `named`.

    `hull` are the ranges that hold all of them, `shared` the share of the passage that both texts have.
    """

    passage: Passage
    chunks: list[tuple[Range, Range]]
    hull: tuple[int, int, int, int]
    shared: float

    @property
    def are_values(self) -> bool:
        """Return whether whatever `named` finds is values: either text has something at each place, and it is no history."""
        a, b = self.passage.a, self.passage.b
        return not self.passage.history and all(
            a[a0:a1].strip() and b[b0:b1].strip() for (a0, a1), (b0, b1) in self.chunks
        )

    def named(self) -> list[Named]:
        """Return what changed, in order: values, or all of it at once where it is more than values."""
        passage, hull = self.passage, self.hull
        values = _values(passage, self.chunks)
        named = all(value.kind is not OTHER for value in values)
        if passage.history and (not named or len(values) > _MOST_VALUES):
            return [(_edited(hull), hull)]
        longest = max(max(a1 - a0, b1 - b0) for _, (a0, a1), (b0, b1) in values)
        scattered = len(values) > 2 and (len(values) > _MOST_VALUES or self.shared < _LEAST_SHARED)
        if not named and (scattered or longest > _MAX_VALUE):
            return [(_is_on_one_side(passage, values) or OTHER, hull)]
        return [
            (OPTIONAL if value.kind is OTHER and _is_one_sided(passage, value) else value.kind, (*value.a, *value.b))
            for value in values
        ]


def compare_passage(passage: Passage) -> list[Named] | Differing:
    """Return what changed in a passage, in order, or the words that do where they are to be named."""
    whole = (passage.a0, passage.a1, passage.b0, passage.b1)
    size = max(passage.a1 - passage.a0, passage.b1 - passage.b0, 1)
    passage = _trimmed(passage)
    rest = max(passage.a1 - passage.a0, passage.b1 - passage.b0)
    if rest > _MAX_PASSAGE:
        return [(_edited(whole) if passage.history else OTHER, whole)]
    chunks, unequal = _chunks(passage)
    if not chunks:
        return []
    hull = (chunks[0][0][0], chunks[-1][0][1], chunks[0][1][0], chunks[-1][1][1])
    if (listed := _on_one_line(passage, hull)) is not None:
        return [(order_kind(passage.b, listed[2], listed[3]), listed)]
    if shuffled(passage.a[hull[0] : hull[1]], passage.b[hull[2] : hull[3]]):
        if "\n" in passage.b[hull[2] : hull[3]]:
            return [(order_kind(passage.b, hull[2], hull[3]), hull)]
        return [(LIST_REORDERED if is_short_list(passage.b, hull[2], hull[3]) else DOCUMENTS_REORDERED, hull)]
    if len(chunks) > _MOST_CHUNKS:
        return [(_edited(hull) if passage.history else OTHER, hull)]
    return Differing(passage, chunks, hull, 1 - unequal / size)


def _edited(ranges: tuple[int, int, int, int]) -> DifferenceKind:
    """Return what was done to a passage of the history."""
    a0, a1, b0, b1 = ranges
    return CUT_SHORT if is_cut_short(a1 - a0, b1 - b0) else HISTORY_EDITED


def _on_one_line(passage: Passage, hull: tuple[int, int, int, int]) -> tuple[int, int, int, int] | None:
    """Return the ranges of a list on one line of both texts whose items changed places, where nothing else differs in it."""
    a0, a1, b0, b1 = hull
    if a1 - a0 != b1 - b0 or a1 - a0 > LONGEST_LINE or sorted(passage.a[a0:a1]) != sorted(passage.b[b0:b1]):
        return None
    (low_a, high_a), (low_b, high_b) = line_around(passage.a, a0), line_around(passage.b, b0)
    if high_a < a1 or high_b < b1:
        return None
    found = reordered(passage.a[low_a:high_a], passage.b[low_b:high_b])
    if found is None:
        return None
    mine, theirs = found
    return (
        low_a + mine.items[0][0],
        low_a + mine.items[-1][1],
        low_b + theirs.items[0][0],
        low_b + theirs.items[-1][1],
    )


def _trimmed(passage: Passage) -> Passage:
    """Return the passage without the words that both texts begin and end with."""
    a, a0, a1, b, b0, b1, history = passage
    one, other = a[a0:a1], b[b0:b1]
    begin = common_prefix(one, other)
    end = common_suffix(one, other, min(len(one), len(other)) - begin)
    left, right = one[max(begin - _LONGEST_WORD, 0) : begin], one[len(one) - end :][:_LONGEST_WORD]
    begin -= len(left) - next((at for at in range(len(left), 0, -1) if left[at - 1].isspace()), 0)
    end -= next((at for at, sign in enumerate(right) if sign.isspace()), len(right))
    return Passage(a, a0 + begin, a1 - end, b, b0 + begin, b1 - end, history)


def _chunks(passage: Passage) -> tuple[list[tuple[Range, Range]], int]:
    """Return the words that differ in a passage, as ranges of both texts, and how many characters of the longer one do."""
    names: dict[str, int] = {}
    words_a, starts_a = _words(passage.a, passage.a0, passage.a1, names)
    words_b, starts_b = _words(passage.b, passage.b0, passage.b1, names)
    runs = align_items(words_a, words_b)
    found: list[tuple[Range, Range]] = []
    at_a = at_b = shared = 0
    for start_a, start_b, length in [*runs, EqualRun(len(words_a), len(words_b), 0)]:
        if at_a < start_a or at_b < start_b:
            found.append(((starts_a[at_a], starts_a[start_a]), (starts_b[at_b], starts_b[start_b])))
        at_a, at_b = start_a + length, start_b + length
        shared += starts_a[at_a] - starts_a[start_a]
    return found, max(passage.a1 - passage.a0, passage.b1 - passage.b0) - shared


def _words(text: str, start: int, stop: int, names: dict[str, int]) -> tuple[list[int], list[int]]:
    """Return a number for each word, space or sign of `text[start:stop]`, and where each begins (and the last one ends)."""
    words = _WORD.findall(text, start, stop)
    keys = [names.setdefault(word, len(names)) for word in words]
    return keys, list(accumulate(map(len, words), initial=start))


def _values(passage: Passage, chunks: list[tuple[Range, Range]]) -> list[Value]:
    """Return the values around differing words: one for all differences within it."""
    found: list[Value] = []
    for range_a, range_b in chunks:
        value = value_around(passage.a, range_a, passage.b, range_b)
        while found and (found[-1].a[1] > value.a[0] or found[-1].b[1] > value.b[0]):
            value = _joined(found.pop(), value)
        found.append(value)
    return _without_pieces(passage, found)


def _without_pieces(passage: Passage, values: list[Value]) -> list[Value]:
    """Return neighbouring unnamed values made one (`Ada Lovelace`), and named by what is before the first."""
    result = values[:1]
    for last, value in pairwise(values):
        between_a, between_b = passage.a[last.a[1] : value.a[0]], passage.b[last.b[1] : value.b[0]]
        near = max(len(between_a), len(between_b)) <= _JOINED and "\n" not in between_b
        if near and value.kind is OTHER and (last.kind is OTHER or _is_worded(result[-1])):
            result[-1] = _joined(result[-1], value)
        else:
            result.append(value)
    return result


def _is_worded(value: Value) -> bool:
    """Return whether only a label gave a value its name: it may be of several words."""
    return value.kind.key in (USER.key, ENVIRONMENT.key, REQUEST_ID.key)


def _joined(one: Value, other: Value) -> Value:
    kind = other.kind if one.kind is OTHER else one.kind
    return Value(
        kind,
        (min(one.a[0], other.a[0]), max(one.a[1], other.a[1])),
        (min(one.b[0], other.b[0]), max(one.b[1], other.b[1])),
    )


def _is_one_sided(passage: Passage, value: Value) -> bool:
    """Return whether one of the texts has nothing where the other has something: grown alike, one range holds the other's text."""
    text_a, text_b = passage.a[slice(*value.a)], passage.b[slice(*value.b)]
    return len(text_a) != len(text_b) and not (text_a.strip() and text_b.strip())  # `[ ]` and `[x]` have something each


def _is_on_one_side(passage: Passage, values: list[Value]) -> DifferenceKind | None:
    return OPTIONAL if all(_is_one_sided(passage, value) for value in values) else None


class Value(NamedTuple):
    """Ranges in both texts that hold one value each, and what kind of value it is."""

    kind: DifferenceKind
    a: Range
    b: Range


def value_around(a: str, range_a: Range, b: str, range_b: Range) -> Value:
    """Return the value that differs, where `a[range_a]` became `b[range_b]`; either range may be empty."""
    found = _named_value(a, range_a, b, range_b)
    if found.kind is OTHER:
        trimmed = _trimmed_ranges(a, range_a, b, range_b)
        if trimmed != (range_a, range_b):
            inner = _named_value(a, trimmed[0], b, trimmed[1])
            if inner.kind is not OTHER:
                return inner
        (first_a, _), (first_b, _) = trimmed
        first = _named_value(a, (first_a, first_a), b, (first_b, first_b))  # as text after it may differ, too
        if first.kind is not OTHER and _holds(first.a, first_a) and _holds(first.b, first_b):
            return first
    return found


def _holds(value: Range, at: int) -> bool:
    return value[0] <= at < value[1]


def _named_value(a: str, range_a: Range, b: str, range_b: Range) -> Value:
    kind_a, low_a, high_a = _grown(a, range_a)
    kind_b, low_b, high_b = _grown(b, range_b)
    # A value that merely touches the place where the other text has more is no part of the difference.
    if kind_a.code != kind_b.code:
        if range_a[0] == range_a[1]:
            kind_a, low_a, high_a = OTHER, *range_a
        if range_b[0] == range_b[1]:
            kind_b, low_b, high_b = OTHER, *range_b
    return Value(min(kind_b, kind_a, key=_rank), (low_a, high_a), (low_b, high_b))


def _rank(kind: DifferenceKind) -> int:
    """Return the specific kinds first: detectors in their order, then what only a label said, then nothing."""
    return _RANK.get(kind.key, len(_RANK)) if kind is not OTHER else len(_RANK) + 1


def _grown(text: str, part: Range) -> tuple[DifferenceKind, int, int]:
    kind, low, high = classify_in(text, *part)
    if low < high and (kind is OTHER or kind.key == "number"):
        label = label_before(text, low)
        told = kind_of_label(label) if label else None
        if told is not None and (kind is OTHER or told.code in _WHOSE):
            kind = told
    return kind, low, high


def _trimmed_ranges(a: str, range_a: Range, b: str, range_b: Range) -> tuple[Range, Range]:
    """Return the ranges without the characters that both begin and end with."""
    (start_a, stop_a), (start_b, stop_b) = range_a, range_b
    while start_a < stop_a and start_b < stop_b and a[start_a] == b[start_b]:
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < stop_a and start_b < stop_b and a[stop_a - 1] == b[stop_b - 1]:
        stop_a, stop_b = stop_a - 1, stop_b - 1
    return (start_a, stop_a), (start_b, stop_b)
