"""A text as a sequence of units to align: its lines, and the JSON values in it as one unit each."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from kvtool.diagnose.compare.json_forms import canonical
from kvtool.diagnose.invisible_differences import NORMALIZERS, normalized
from kvtool.text.align import EqualRun, align_items
from kvtool.text.json_text import JsonAt, json_in

MAX_TEXT = 2_000_000
MAX_UNITS = 20_000
_MOST_BRACKETS = 100_000
_MOST_ENDS = 64
_JSON_WINDOW = 65_536
"""Characters before the first difference in which a JSON value that holds it may begin."""
_NUMBER = re.compile(r"(?<!\w)\d{1,4}(?!\w)")
_LABEL_LENGTH = 40


class Unit(NamedTuple):
    """Characters `[start, stop)` of a text, with the blank lines after them. Units with equal keys say the same."""

    start: int
    stop: int
    key: str
    value: Any = None
    """The object or list, where the unit is JSON."""

    @property
    def relaxed(self) -> str:
        """Return the key without the number that a label has: `Example 3:`, `[3]`, `<document index="3">`."""
        head, tail = self.key[:_LABEL_LENGTH], self.key[_LABEL_LENGTH:]
        return _NUMBER.sub("#", head, count=1) + tail


def differing(a: str, b: str) -> tuple[int, int, int]:
    """Return where the lines begin in which two texts first differ, or the line before an empty one; and where the last such lines
    end.

    `a[:start] == b[:start]` and `a[stop_a:] == b[stop_b:]`.
    """
    start = common_prefix(a, b)
    rest = min(len(a), len(b)) - start
    end = common_suffix(a, b, rest)
    start = a.rfind("\n", 0, len(a[: a.rfind("\n", 0, start) + 1].rstrip())) + 1
    line_a, line_b = a.find("\n", max(len(a) - end - 1, 0)), b.find("\n", max(len(b) - end - 1, 0))
    if line_a < 0 or line_b < 0 or len(a) - line_a != len(b) - line_b:
        return start, len(a), len(b)
    return start, line_a + 1, line_b + 1


def common_prefix(a: str, b: str) -> int:
    """Return how many leading characters two texts share."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    step = 64
    while True:  # in growing strides, then by halves
        stop = min(low + step, high)
        if a[low:stop] != b[low:stop]:
            break
        low, step = stop, step * 4
    high = stop
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(a: str, b: str, most: int) -> int:
    """Return how many trailing characters two texts share, at most `most`."""
    low, step = 0, 64
    while low < most:
        high = min(low + step, most)
        if a[len(a) - high : len(a) - low] != b[len(b) - high : len(b) - low]:
            break
        low, step = high, step * 4
    else:
        return most
    while high - low > 1:
        middle = (low + high) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle
    return low


def json_around(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return the range grown to the JSON values that it cuts through."""
    low, high = start, stop
    window = text.rfind("\n", 0, max(start - _JSON_WINDOW, 0)) + 1
    for found in _json_in(text[window : stop + _JSON_WINDOW]):
        if window + found.start >= stop:
            break
        if window + found.stop > start:
            low, high = min(low, window + found.start), max(high, window + found.stop)
    return low, high


def _json_in(text: str) -> Iterator[JsonAt]:
    """Return the JSON values in a text; none in one that is mostly brackets, each of which would have to be tried."""
    return iter(()) if text.count("{") + text.count("[") > _MOST_BRACKETS else json_in(text)


def units(text: str, start: int, stop: int) -> list[Unit]:
    """Return the units of `text[start:stop]`; a text that is too long for it is taken by lines alone."""
    found: list[Unit] = []
    at = start
    if stop - start <= MAX_TEXT:
        for each in _json_in(text[start:stop]):
            if _has_order(each.value):
                _lines(text, at, start + each.start, found)
                key = "\0" + canonical(each.value).decode(errors="replace")
                at = start + each.stop
                found.append(Unit(start + each.start, at, key, each.value))
    _lines(text, at, stop, found)
    return found if len(found) <= MAX_UNITS else _coarser(found)


def plain(line: str) -> str:
    """Return the line without differences that nobody sees."""
    return " ".join(line.split()) if line.isascii() else normalized(line, NORMALIZERS).strip()


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[EqualRun]:
    """Return the runs of items that two sequences have in common, in order."""
    names: dict[Hashable, int] = {}
    ids_a = [names.setdefault(item, len(names)) for item in a]
    if names.keys().isdisjoint(b):
        return []
    ids_b = [names.setdefault(item, len(names)) for item in b]
    return align_items(ids_a, ids_b)


def same_end(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return how far `b` goes until the last item of `a` is found in it, with the most before it that both have; else all of it."""
    if b[: len(a)] == a:
        return len(a)
    last = len(a) - 1
    spots = [at for at, item in enumerate(b) if item == a[last]] if last > 0 else []
    spots = sorted(spots, key=lambda at: abs(at - last))[:_MOST_ENDS]

    def shared(at: int) -> int:
        most = min(at, last) + 1
        return next((back for back in range(most) if a[last - back] != b[at - back]), most)

    return max(spots, key=lambda at: (shared(at), -abs(at - last)), default=len(b) - 1) + 1


def _lines(text: str, at: int, stop: int, found: list[Unit]) -> None:
    """Add the lines of `text[at:stop]`; blank ones belong to the unit before them."""
    while at < stop:
        end = text.find("\n", at, stop)
        end = stop if end < 0 else end + 1
        line = text[at:end]
        key = plain(line)
        if key or not found:
            found.append(Unit(at, end, key))
        else:
            found[-1] = found[-1]._replace(stop=end)
        at = end


def _coarser(found: list[Unit]) -> list[Unit]:
    """Return neighbouring lines as one unit, cut where a line's own text says so: equal stretches are cut alike."""
    every = len(found) // MAX_UNITS + 1
    result: list[Unit] = []
    first = 0
    for index, unit in enumerate(found):
        if sum(unit.key[:64].encode(errors="replace")) % (2 * every) == 0 or index == len(found) - 1:
            group = found[first : index + 1]
            result.append(Unit(group[0].start, unit.stop, "\n".join(each.key for each in group)))
            first = index + 1
    return result


def _has_order(value: Any) -> bool:
    """Return whether a JSON value holds an object with two keys, or a list of objects: something to be put in another order.

    However deep it is: Python 3.13 reads JSON that is deeper than calls may be.
    """
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if len(one) > 1:
                return True
            left += one.values()
        elif isinstance(one, list):
            inner = [item for item in one if isinstance(item, dict | list)]
            if inner and len(one) > 1:
                return True
            left += inner
    return False
