"""A difference grown to the value that it is a part of, and that value named: by its form, else by the label before it."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.diagnose.codes.values.kv104 import KV104
from kvtool.diagnose.difference_kind import DifferenceKind
from kvtool.diagnose.values.classify import DETECTORS, classify_in
from kvtool.diagnose.values.labels import kind_of_label, label_before

_RANK = {key: rank for rank, key in enumerate(dict.fromkeys(kind.key for kind, _ in DETECTORS))}
_WHOSE = (KV102.code, KV104.code)
"""What a label may say of a bare number: that it is somebody's id."""

Range = tuple[int, int]


class Value(NamedTuple):
    """Ranges in both texts that hold one value each, and what kind of value it is."""

    kind: DifferenceKind
    a: Range
    b: Range


def value_around(a: str, range_a: Range, b: str, range_b: Range) -> Value:
    """The value that differs, where `a[range_a]` became `b[range_b]`; either range may be empty."""
    found = _named(a, range_a, b, range_b)
    if found.kind is OTHER:
        trimmed = _trimmed(a, range_a, b, range_b)
        if trimmed != (range_a, range_b):
            inner = _named(a, trimmed[0], b, trimmed[1])
            if inner.kind is not OTHER:
                return inner
    return found


def _named(a: str, range_a: Range, b: str, range_b: Range) -> Value:
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
    """The specific kinds first: detectors in their order, then what only a label said, then nothing."""
    return _RANK.get(kind.key, len(_RANK)) if kind is not OTHER else len(_RANK) + 1


def _grown(text: str, part: Range) -> tuple[DifferenceKind, int, int]:
    kind, low, high = classify_in(text, *part)
    if low < high and (kind is OTHER or kind.key == "number"):
        label = label_before(text, low)
        told = kind_of_label(label) if label else None
        if told is not None and (kind is OTHER or told.code in _WHOSE):
            kind = told
    return kind, low, high


def _trimmed(a: str, range_a: Range, b: str, range_b: Range) -> tuple[Range, Range]:
    """The ranges without the characters that both begin and end with."""
    (start_a, stop_a), (start_b, stop_b) = range_a, range_b
    while start_a < stop_a and start_b < stop_b and a[start_a] == b[start_b]:
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < stop_a and start_b < stop_b and a[stop_a - 1] == b[stop_b - 1]:
        stop_a, stop_b = stop_a - 1, stop_b - 1
    return (start_a, stop_a), (start_b, stop_b)
