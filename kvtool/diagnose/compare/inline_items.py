"""Lists that stand on one line: `Tools: search(q), fetch(url)`, `You can use a, b and c.`, `<tool …/><tool …/>`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kvtool.diagnose.compare.units import common_prefix

LONGEST_LINE = 16_384
MOST_ITEMS = 400
_MOST_INTROS = 16
_FEWEST, _LEAST = 3, 3
"""Items from which on any line has a list; two make one where each has so many characters."""
_INTRO = re.compile(
    r"[:=>(\[{][ \t]*|\b(?:use|using|call|invoke|run|are|is|include|includes|including|tools|functions|to|with)[ \t]+",
    re.IGNORECASE,
)
"""What may stand before the first item."""
_ELEMENT = re.compile(r"[ \t,;]*(<([A-Za-z][\w.-]{0,40})(?:\s[^<>]{0,300})?(?:/>|>[^<]{0,2000}</\2>))")
_SEPARATORS = ";|,\u3001\uff0c\uff1b"
"""The first of them that stands outside of brackets parts a list."""
_LAST = re.compile(r"[ \t]*(?:and|or|und|oder|et|ou|y|e|o|\u0438)[ \t]+", re.IGNORECASE)
_TWO = re.compile(r"(\S+)[ \t]+(?:and|or|und|oder|et|ou|y|e|o|\u0438)[ \t]+(\S+)", re.IGNORECASE)
_OPENING, _CLOSING = "([{", ")]}"
_ENDS = ".!?"

Range = tuple[int, int]


class InlineList(NamedTuple):
    """A list on a line: what stands before it, and where each item begins and ends."""

    intro: str
    items: tuple[Range, ...]

    def bodies(self, line: str) -> tuple[str, ...]:
        """What the items say."""
        return tuple(line[start:stop] for start, stop in self.items)


def lists_on(line: str, most: int | None = None) -> Iterator[InlineList]:
    """The lists that may stand on a line, each from one place on, that is at most at character `most`."""
    if len(line) > LONGEST_LINE:
        return
    starts = [0]
    for found in _INTRO.finditer(line):
        if len(starts) == _MOST_INTROS or (most is not None and found.end() > most):
            break
        starts.append(found.end())
    for start in starts:
        items = _elements(line, start) or _parted(line, start)
        if len(items) >= _FEWEST or (len(items) == 2 and min(stop - begin for begin, stop in items) >= _LEAST):
            yield InlineList(line[:start], tuple(items))


def reordered(one: str, other: str) -> tuple[InlineList, InlineList] | None:
    """The list of either line, where nothing differs in these lines but the order of its items.

    Of several the one with most before it: the first item of another one has what introduces the list.
    """
    begin = common_prefix(one, other)
    for mine in reversed(list(lists_on(one, begin))):
        theirs = next((each for each in lists_on(other, begin) if each.intro == mine.intro), None)
        if theirs is None or one[mine.items[-1][1] :] != other[theirs.items[-1][1] :]:
            continue
        bodies, others = mine.bodies(one), theirs.bodies(other)
        if bodies != others and Counter(bodies) == Counter(others):
            return mine, theirs
    return None


def _elements(line: str, start: int) -> list[Range]:
    """Elements one behind the other."""
    items: list[Range] = []
    while len(items) < MOST_ITEMS and (found := _ELEMENT.match(line, items[-1][1] if items else start)):
        items.append(found.span(1))
    return items if len(items) > 1 else []


def _parted(line: str, start: int) -> list[Range]:
    """What separators outside of brackets part, up to the end of the sentence, of the line or of what is around it."""
    cuts: dict[str, list[int]] = {}
    depth, stop = 0, len(line)
    for at in range(start, len(line)):
        sign = line[at]
        if sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            if not depth:
                stop = at
                break
            depth -= 1
        elif depth:
            continue
        elif sign in _SEPARATORS:
            cuts.setdefault(sign, []).append(at)
        elif (sign in _ENDS and (at + 1 == len(line) or line[at + 1].isspace())) or line.startswith("</", at):
            stop = at
            break
    own = next((cuts[sign] for sign in _SEPARATORS if sign in cuts), [])
    if not own or len(own) >= MOST_ITEMS:
        return []
    items = [
        _stripped(line, low, high) for low, high in zip([start, *(at + 1 for at in own)], [*own, stop], strict=True)
    ]
    low, high = items[-1]
    if found := _LAST.match(line, low, high):
        items[-1] = found.end(), high
    elif found := _TWO.fullmatch(line, low, high):
        items[-1:] = [found.span(1), found.span(2)]
    return items if all(low < high for low, high in items) else []


def _stripped(line: str, low: int, high: int) -> Range:
    while low < high and line[low].isspace():
        low += 1
    while low < high and line[high - 1].isspace():
        high -= 1
    return low, high
