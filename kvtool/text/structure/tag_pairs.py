"""XML- and HTML-like elements in a text: opening tags and the closing ones that belong to them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from kvtool.text.structure.masking import Span
from kvtool.text.structure.tag_name import TAG_NAME

_TAG = re.compile(rf"<(/?)({TAG_NAME})((?:\s[^<>]{{0,300}})?)>|\[(/?)([A-Z][A-Z_]{{1,40}})\]")
_ONLY_TAGS = re.compile(
    rf"^[ \t]*+((?:(?:</?{TAG_NAME}(?:[^\S\n][^<>\n]{{0,300}})?>|\[/?[A-Z][A-Z_]{{1,40}}\])[ \t\r]*+)++)$",
    re.MULTILINE,
)
_EMPTY = frozenset({"br", "hr", "img", "input", "meta", "link"})


class Element(NamedTuple):
    """An element at `[start, stop)`; its content begins at `body` and ends at `close`."""

    start: int
    stop: int
    body: int
    close: int


def elements_in(text: str, hidden: Sequence[Span]) -> list[Element]:
    """The elements in order of their ends, nested or apart; tags in `hidden` spans (in order) and lonely ones do not count."""
    if "<" not in text and "[/" not in text:
        return []
    found: list[Element] = []
    opened: list[tuple[str, int, int]] = []
    waiting: dict[str, int] = {}
    index = 0
    for tag in _TAG.finditer(text):
        low, high = tag.span()
        while index < len(hidden) and hidden[index][1] <= low:
            index += 1
        if index < len(hidden) and hidden[index][0] < high:
            continue
        closing, name, values, closes, capitals = tag.groups()
        name = name or f"[{capitals}"
        if (values and values.endswith("/")) or name.lower() in _EMPTY:
            continue
        if not (closing or closes):
            opened.append((name, low, high))
            waiting[name] = waiting.get(name, 0) + 1
        elif waiting.get(name):
            while True:
                last, start, body = opened.pop()
                waiting[last] -= 1
                if last == name:
                    break
            found.append(tuple.__new__(Element, (start, high, body, low)))
    return found


def tag_name(opening: str) -> str:
    """The name in an opening tag; empty where there is none."""
    tag = _TAG.search(opening)
    return "" if tag is None else tag[2] or f"[{tag[5]}"


def tag_lines(text: str) -> list[Span]:
    """The lines that hold tags and nothing else, without their indents."""
    if "<" not in text and "[" not in text:
        return []
    return [(found.start(1), found.start(1) + len(found[1].rstrip())) for found in _ONLY_TAGS.finditer(text)]


class PlacedLines:
    """The lines of a text: `shown` with spaces for carriage returns, `bare` without white space at their ends.

    Line n begins at `starts[n]`; there is one start more than there are lines.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.shown = text.replace("\r\n", " \n").replace("\r", " ").split("\n")
        self.bare = list(map(str.rstrip, self.shown))
        self.starts = list(accumulate([len(line) + 1 for line in self.shown], initial=0))
        self._ends: dict[int, Span] = {}

    def of(self, at: int) -> int:
        """The number of the line on which a character is."""
        return bisect_right(self.starts, at) - 1

    def end(self, number: int) -> int:
        """Return the end of a line's visible text."""
        return self.starts[number] + len(self.bare[number])

    def last_of(self, first: int, stop: int) -> int:
        """The last line of `[first, stop)` that is not blank, or the first."""
        last = min(stop, len(self.bare)) - 1
        while last > first and not self.bare[last]:
            last -= 1
        return last

    def behind(self, number: int) -> int:
        """The line after this one, or after the blank one that is there."""
        number += 1
        return number + 1 if number < len(self.bare) and not self.bare[number] else number

    def whole(self, start: int, stop: int) -> Span:
        """A range with its indent, and with all of its lines where it is alone on them."""
        first, last = self.of(start), self.of(stop - 1)
        alone = start <= self._content(first)[0] and self._content(last)[1] <= stop
        return (self.starts[first], self.end(last)) if alone else (start, stop)

    def _content(self, number: int) -> Span:
        """Return the start and end of a line's visible text, signs between values left out."""
        if number not in self._ends:
            line, start = self.shown[number], self.starts[number]
            self._ends[number] = start + len(line) - len(line.lstrip()), start + len(line.rstrip(" \t\r,;"))
        return self._ends[number]
