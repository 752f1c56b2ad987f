"""Lists that are on one line: `Tools: search(q), fetch(url)`, `You can use a, b and c.`, `<tool …/><tool …/>`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kvtool.diagnose.compare.units import common_prefix
from kvtool.text.structure.tag_name import TAG_NAME

LONGEST_LINE = 16_384
MOST_ITEMS = 400
_MOST_INTROS = 16
_FEWEST, _LEAST = 3, 3
"""Items from which on any line has a list; two make one where each has so many characters."""
_INTRO = re.compile(
    r"[:=>(\[{\u2192\u21d2\u21a6\u27a1\u279c\u2794\u25b6\u00bb\uff1a][ \t]*"
    r"|\b(?:use|using|call|invoke|run|are|is|include|includes|including|tools|functions|to|with)[ \t]+",
    re.IGNORECASE,
)
"""What may be before the first item."""
_ELEMENT = re.compile(rf"[ \t,;]*(<({TAG_NAME})(?:\s[^<>]{{0,300}})?(?:/>|>[^<]{{0,2000}}</\2>))")
_SEPARATOR = re.compile(r"[;|,\u3001\uff0c\uff1b]|(?<=\s)[^\w\s()\[\]{}\"'`.!?:]{1,3}(?=\s)")
"""What parts items: a sign of lists, or any between spaces."""
_FIRST = ";|,\u3001\uff0c\uff1b"
"""Of several the one that comes first here parts the list, else the first on the line."""
_NAMES = re.compile(
    r"(?:[`'\"]?[/!]?[A-Za-z_][\w.:-]{0,80}(?:\(\))?[`'\"]?[ \t]+){2}[`'\"]?[/!]?[A-Za-z_][\w.:\- \t/!`'\"()]*"
)
"""Words that nothing but spaces part."""
_NAME = re.compile(r"[^\s(]+(?:\([^()]{0,400}\))?[^\s(]*")
_LAST = re.compile(r"[ \t]*(?:and|or|und|oder|et|ou|y|e|o|\u0438)[ \t]+", re.IGNORECASE)
_TWO = re.compile(r"(\S+)[ \t]+(?:and|or|und|oder|et|ou|y|e|o|\u0438)[ \t]+(\S+)", re.IGNORECASE)
_MARKS = (":", "=", ">")
"""Where nothing but spaces parts items, one of these introduces them."""
_OPENING, _CLOSING = "([{", ")]}"
_ENDS = ".!?"

Range = tuple[int, int]


class InlineList(NamedTuple):
    """A list on a line: what is before it, and where each item begins and ends."""

    intro: str
    items: tuple[Range, ...]

    def bodies(self, line: str) -> tuple[str, ...]:
        """Return what the items say."""
        return tuple(line[start:stop] for start, stop in self.items)


def lists_on(line: str, most: int | None = None, begin: int = 0) -> Iterator[InlineList]:
    """Yield the lists that may be on a line, each from one place on, that is at most at character `most`.

    `begin` is the end of the words that other lines begin with, too: whatever these are, they may introduce a list.
    """
    if len(line) > LONGEST_LINE:
        return
    starts = [0] if not begin else [0, begin]
    for found in _INTRO.finditer(line):
        if len(starts) == _MOST_INTROS or (most is not None and found.end() > most):
            break
        starts.append(found.end())
    for start in sorted(set(starts)):
        items = _elements(line, start) or _parted(line, start)
        if len(items) >= _FEWEST or (len(items) == 2 and min(stop - begin for begin, stop in items) >= _LEAST):
            yield InlineList(line[:start], tuple(items))


def words_before(line: str, at: int) -> int:
    """Return where the last word begins that character `at` of a line is in, or right after."""
    return max(line.rfind(sign, 0, at) for sign in " \t\u3000") + 1


def reordered(one: str, other: str) -> tuple[InlineList, InlineList] | None:
    """Return the list of either line, where nothing differs in these lines but the order of its items.

    Of several the one with most before it: the first item of another one has what introduces the list.
    """
    begin = common_prefix(one, other)
    words = words_before(one, begin)
    for mine in reversed(list(lists_on(one, begin, words))):
        theirs = next((each for each in lists_on(other, begin, words) if each.intro == mine.intro), None)
        if theirs is None or one[mine.items[-1][1] :] != other[theirs.items[-1][1] :]:
            continue
        bodies, others = mine.bodies(one), theirs.bodies(other)
        if bodies != others and Counter(bodies) == Counter(others):
            return mine, theirs
    return None


def _elements(line: str, start: int) -> list[Range]:
    """Return elements that follow each other."""
    items: list[Range] = []
    while len(items) < MOST_ITEMS and (found := _ELEMENT.match(line, items[-1][1] if items else start)):
        items.append(found.span(1))
    return items if len(items) > 1 else []


def _parted(line: str, start: int) -> list[Range]:
    """Return what separators outside of brackets part, up to the end of the sentence, of the line or of what is around it."""
    signs = {found.start(): found.end() for found in _SEPARATOR.finditer(line, start)}
    cuts: dict[str, list[Range]] = {}
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
        elif at in signs:
            cuts.setdefault(line[at : signs[at]], []).append((at, signs[at]))
        elif (sign in _ENDS and (at + 1 == len(line) or line[at + 1].isspace())) or line.startswith("</", at):
            stop = at
            break
    own = next((cuts[sign] for sign in _FIRST if sign in cuts), next(iter(cuts.values()), []))
    if not own and line[:start].rstrip().endswith(_MARKS) and _NAMES.fullmatch(line, start, len(line[:stop].rstrip())):
        return [found.span() for found in _NAME.finditer(line, start, stop)][:MOST_ITEMS]
    if not own or len(own) >= MOST_ITEMS:
        return []
    bounds = zip([start, *(end for _, end in own)], [*(begin for begin, _ in own), stop], strict=True)
    items = _last_parted(line, [_stripped(line, low, high) for low, high in bounds])
    return items if all(low < high for low, high in items) else []


def _last_parted(line: str, items: list[Range]) -> list[Range]:
    """Return the items, the last one without `and`, and without the words after it where all others are single ones."""
    low, high = items[-1]
    if found := _LAST.match(line, low, high):
        low = found.end()
    first: list[Range] = []
    single = not any(sign.isspace() for begin, end in items[:-1] for sign in line[begin:end])
    if (two := _TWO.match(line, low, high)) and (single or two.end() == high):
        first, low = [two.span(1)], two.start(2)
    if single and (name := _NAME.match(line, low, high)):
        high = name.end()
    return [*items[:-1], *first, (low, high)]


def _stripped(line: str, low: int, high: int) -> Range:
    while low < high and line[low].isspace():
        low += 1
    while low < high and line[high - 1].isspace():
        high -= 1
    return low, high
