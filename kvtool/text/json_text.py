"""JSON inside text: where it is, and its members put in order without another change of a character."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from kvtool.text.reordered import rearranged
from kvtool.text.structure.masking import Span, masked, placeholders

_START = re.compile(r"[{\[](?=[ \t\r\n]*+[\"{\[])")
_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}\[{:\"]++")
_DEEPEST = 100
_WINDOW = 1024
_LONGEST_LITERAL = 16
"""Characters before the end of a window in which a mistake may come from the cut: `tru`, `\\u12`."""

Ranges = list[tuple[int, int]]
ItemKey = Callable[[str], str | None]
"""A sort key of an array's item, from its text; None where it is no item to be sorted."""


class JsonAt(NamedTuple):
    """A JSON object or array that is at `[start, stop)` of a text."""

    start: int
    stop: int
    value: object


class _TooDeepError(Exception):
    """Brackets nested deeper than any data that people write."""


def may_hold_json(text: str) -> bool:
    """Return whether `json_in` may find anything in a text, or in a part of it."""
    return ("{" in text or "[" in text) and _START.search(text) is not None


def json_in(text: str) -> Iterator[JsonAt]:
    """The outermost JSON objects and arrays in a text; what looks like one but is not is passed over, in linear time."""
    plain = str.__str__(text)
    decoder = json.JSONDecoder(strict=False)
    at = 0
    while found := _START.search(plain, at):
        start = found.start()
        try:
            value, stop = _decoded(decoder, plain, start)
        except (RecursionError, ValueError):  # nested too deep, or a number of thousands of digits
            return
        if stop > start:
            yield JsonAt(start, stop, value)
        at = abs(stop)


def _decoded(decoder: json.JSONDecoder, text: str, start: int) -> tuple[object, int]:
    """The JSON value at `start` and where it ends; where it is none, the place that shows it, negative.

    Windows of the text are tried, each longer than the last: an error costs time for all the text before it, to count its lines.
    """
    size = _WINDOW
    while True:
        window = text[start : start + size]
        try:
            value, length = decoder.raw_decode(window)
        except json.JSONDecodeError as error:
            cut_off = error.pos > len(window) - _LONGEST_LITERAL or error.msg.startswith("Unterminated")
            if not cut_off or start + size >= len(text):
                return None, -(start + max(error.pos, 1))
            size *= 16
            continue
        return value, start + length


def sorted_json(text: str, *, keys: bool = True, item_key: ItemKey | None = None) -> str:
    """The text with the members of each JSON object in the order of their keys; the same object where they are.

    What is between two members stays in its place, so that layout, numbers and escapes are as they were. `item_key` sorts
    the items of arrays as well where it has a key for each of them.
    """
    ranges: Ranges = []
    at = 0
    for found in json_in(text):
        try:
            pieces, stop = _Sorter(str.__str__(text), keys, item_key).value(found.start, 0)
        except _TooDeepError:
            continue
        ranges += [(at, found.start), *pieces]
        at = stop
    ranges.append((at, len(text)))
    in_order = all(left[1] == right[0] for left, right in pairwise(ranges))
    return text if in_order else rearranged(text, ranges)


class _Sorter:
    """Ranges of a text that is known to hold JSON, in the order in which they are to be written."""

    def __init__(self, text: str, keys: bool, item_key: ItemKey | None) -> None:
        self._text = text
        self._keys = keys
        self._item_key = item_key

    def value(self, at: int, depth: int) -> tuple[Ranges, int]:
        """The ranges of the value that begins at `at`, and where it ends."""
        if depth > _DEEPEST:
            raise _TooDeepError
        opening = self._text[at]
        if opening in "{[":
            return self._container(at, depth, is_object=opening == "{")
        found = (_STRING if opening == '"' else _SCALAR).match(self._text, at)
        assert found is not None
        return [(at, found.end())], found.end()

    def _container(self, start: int, depth: int, *, is_object: bool) -> tuple[Ranges, int]:
        between: Ranges = []  # what stands before each member, and behind the last one
        members: list[tuple[str | None, Ranges]] = []
        gap = at = start
        while self._text[at] not in "]}":
            begin = self._skip(at + 1)
            if self._text[begin] in "]}":  # nothing in it
                return [(start, begin + 1)], begin + 1
            between.append((gap, begin))
            if is_object:
                key = _STRING.match(self._text, begin)
                assert key is not None
                inner = self._skip(self._skip(key.end()) + 1)
                pieces, gap = self.value(inner, depth + 1)
                members.append((json.loads(key[0], strict=False) if self._keys else None, [(begin, inner), *pieces]))
            else:
                pieces, gap = self.value(begin, depth + 1)
                members.append((self._item_key(self._text[begin:gap]) if self._item_key else None, pieces))
            at = self._skip(gap)
        between.append((gap, at + 1))
        return _put_in_order(between, members), at + 1

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        assert found is not None
        return found.end()


def _put_in_order(between: Ranges, members: list[tuple[str | None, Ranges]]) -> Ranges:
    """The members sorted where each has a key, what is between them where it was."""
    if all(key is not None for key, _ in members):
        members = sorted(members, key=lambda member: member[0] or "")
    ranges = [between[0]]
    for (_, pieces), gap in zip(members, between[1:], strict=True):
        ranges += [*pieces, gap]
    return ranges


_FRONT = re.compile(r"---[ \t\r]*\n(?:[^\n]*\n){1,200}?(?:---|\.\.\.)[ \t\r]*(?=\n|\Z)")
_KEY = re.compile(r"[ \t]*(?:#|- |[\w.\"'-]{1,60}[ \t]*:)")
_OPENS = re.compile(r"(?:\A|[\s=:(,])[\[{(][ \t\r]*\Z|\A[ \t]*[\[{(][ \t\r]*\Z")
_PARTNER = {"}": "{", "]": "[", ")": "("}
_SHORT = 500


def data_in(text: str) -> list[Span]:
    """Find the values of data, the outermost only, in order."""
    spans = [(found.start, found.stop) for found in json_in(_as_json(text))]
    if front := _front_matter(text):
        spans = [front, *(span for span in spans if span[0] >= front[1])]
    if "\n" not in text or not ("{" in text or "[" in text or "(" in text):
        return spans
    return _outermost([*spans, *_bracketed(text)])


def _as_json(text: str) -> str:
    """The text with placeholders as digits, which JSON takes as a number and in a string alike."""
    return masked(text, placeholders(text), "1")


def _front_matter(text: str) -> Span | None:
    found = _FRONT.match(text) if text.startswith("---") else None
    if found is None:
        return None
    lines = found[0].split("\n")[1:-1]
    return found.span() if all(_KEY.match(line) for line in lines if line.strip() and line[0] not in " \t") else None


def _bracketed(text: str) -> Iterator[Span]:
    """From a line that ends with an opening bracket to the line that begins with its closing one."""
    opened: list[tuple[str, int]] = []
    at = 0
    for line in text.split("\n"):
        shown = line.strip()
        if shown and opened and shown[0] in _PARTNER:
            if opened[-1][0] == _PARTNER[shown[0]]:
                start = opened.pop()[1]
                yield start, at + len(line.rstrip())
            else:
                opened.clear()
        if shown and len(line) <= _SHORT and shown[-1] in "{[(" and _OPENS.search(line):
            opened.append((shown[-1], at + len(line) - len(line.lstrip())))
        at += len(line) + 1


def _outermost(spans: list[Span]) -> list[Span]:
    kept: list[Span] = []
    for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, stop))
        elif stop > kept[-1][1]:
            kept[-1] = (kept[-1][0], stop)
    return kept
