"""Lists inside text: documents, memories, examples; where each item stands, and which number it bears."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from itertools import islice, pairwise
from typing import NamedTuple

from kvtool.text.structure.tag_name import TAG_NAME

_TAG = re.compile(rf"^[ \t]{{0,8}}<({TAG_NAME})((?:[ \t][^<>\n]{{0,300}})?)>", re.MULTILINE)
_NUMBER = re.compile(r"(?:index|id|n|num|number|no)=[\"']?(\d{1,6})(?!\d)")
_LABELS = (
    re.compile(r"^(?:#{1,6} |\*\*|- )?\[(\d{1,6})\]", re.MULTILINE),
    re.compile(
        r"^(?:#{1,6} |\*\*|- |\[|<)?(?:document|doc|source|passage|context|example|memory|chunk|result|snippet|reference|entry|item"
        r"|case|shot|dokument|quelle|beispiel|exemple|ejemplo|documento|fuente)\s?(?:#|no\. ?)?(\d{1,6})(?!\d)",
        re.MULTILINE | re.IGNORECASE,
    ),
    re.compile(r"^(?:#{1,6} |\*\*|- )?\(?(\d{1,6})[.):]", re.MULTILINE),
)
_BLANK = re.compile(r"\n(?:[ \t\r]*+\n)++")
_ANSWER = re.compile(r"(?:a|answer|output|response|assistant|label|result)\s?:", re.IGNORECASE)
_QUESTION = re.compile(
    r"^(?:\*\*|- |#{1,6} )?(?:q|question|input|user|human|prompt|frage|pregunta)\s?:", re.MULTILINE | re.IGNORECASE
)
_HEADING = re.compile(r"^#{1,6} [^\n]{1,200}\n", re.MULTILINE)
_LABEL = re.compile(r"(?:\*\*|- )?[^\W\d_]{1,20}[ ]?[:\uff1a]")
_LINE_END = re.compile("\n|$")
_MOST_ITEMS = 10_000


class Item(NamedTuple):
    """Characters `[start, stop)` of a text, and those of the number in them (equal: it has none)."""

    start: int
    stop: int
    number: int
    number_stop: int

    def body(self, text: str) -> str:
        """Return what the item says, its number aside."""
        return text[self.start : self.number] + text[self.number_stop : self.stop]


Known = Collection[str]
Split = Callable[[str, Known], list[Item]]
"""Finds the items of a text; bodies that are known from elsewhere tell where the last item ends."""


def tagged(text: str, known: Known) -> list[Item]:
    """Return elements of one name, one after the other: `<document index="1">…</document>`."""
    del known
    items: list[Item] = []
    missing: set[str] = set()
    name = ""
    at = 0
    while len(items) < _MOST_ITEMS and (found := _TAG.search(text, at)):
        at = found.end()
        if found[1] in missing:
            continue
        close = f"</{found[1]}>"
        end = text.find(close, at)
        if end < 0:
            missing.add(found[1])
            continue
        if items and (found[1] != name or text[items[-1].stop : found.start()].strip()):
            if len(items) > 1:
                break
            items = []
        if not items and text.find(f"<{found[1]}", end) < 0:
            continue  # the only one of its name: look into it
        name = found[1]
        at = end + len(close)
        start = text.index("<", found.start())
        number = _NUMBER.search(text, start, found.end())
        items.append(Item(start, at, *(number.span(1) if number else (start, start))))
    return items if len(items) > 1 else []


def _labelled(pattern: re.Pattern[str]) -> Split:
    """Return items that begin with a number: `[1] …`, `Document 3: …`, `2. …`."""

    def split(text: str, known: Known) -> list[Item]:
        run = _counting(pattern, text)
        if len(run) < 2:
            return []
        items = [
            Item(mark.start(), _stripped(text, mark.start(), behind.start()), *mark.span(1))
            for mark, behind in pairwise(run)
        ]
        blank = any(_BLANK.search(text, item.start, item.stop) for item in items)
        last = run[-1]
        stop = _end_of_last(text, last.start(), last.span(1), known, blank=blank)
        return [*items, Item(last.start(), stop, *last.span(1))] if stop is not None else items

    return split


def _counting(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the longest run of labels that count up by one."""
    best: list[re.Match[str]] = []
    run: list[re.Match[str]] = []
    for mark in islice(pattern.finditer(text), _MOST_ITEMS):
        if run and int(run[-1][1]) + 1 != int(mark[1]):
            run = []
        run.append(mark)
        best = run if len(run) > len(best) else best
    return best


def _end_of_last(text: str, start: int, number: tuple[int, int], known: Known, *, blank: bool) -> int | None:
    """Return where the last item ends, as nothing follows it: at a body that is known, else at a blank line where no item has
    one.
    """
    ends = [found.start() for found in _BLANK.finditer(text, start)][:20]
    for end in [*ends, len(text)]:
        stop = _stripped(text, start, end)
        if Item(start, stop, *number).body(text) in known:
            return stop
    if blank:
        return None
    return _stripped(text, start, ends[0] if ends else len(text))


def paragraphs(text: str, known: Known) -> list[Item]:
    """Return what blank lines part; an answer belongs to the question before it."""
    del known
    items: list[Item] = []
    at = 0
    for found in [*list(_BLANK.finditer(text))[:_MOST_ITEMS], None]:
        stop = found.start() if found else len(text)
        if text[at:stop].strip():
            if items and _ANSWER.match(text, at):
                items[-1] = Item(items[-1].start, _stripped(text, at, stop), items[-1].start, items[-1].start)
            else:
                if found and (begin := _items_after_heading(text, at, stop, found.end())) is not None:
                    items.append(Item(at, _stripped(text, at, begin), at, at))
                    at = begin
                items.append(Item(at, _stripped(text, at, stop), at, at))
        at = found.end() if found else stop
    return items


def _items_after_heading(text: str, at: int, stop: int, following: int) -> int | None:
    """Return where the first item begins that a heading stands right above: it has the label that the next
    paragraph begins with.
    """
    heading = max(islice(_HEADING.finditer(text, at, stop), _MOST_ITEMS), key=re.Match.start, default=None)
    if heading is None:
        return None
    mine, other = _LABEL.match(text, heading.end()), _LABEL.match(text, following)
    return heading.end() if mine and other and mine[0] == other[0] else None


def asked(text: str, known: Known) -> list[Item]:
    """Return examples that begin with a question: `Q: …` and the answer after it, whatever is before the first and after the
    last.
    """
    starts = [found.start() for found in islice(_QUESTION.finditer(text), _MOST_ITEMS)]
    if len(starts) < 2:
        return []
    items = [Item(start, _stripped(text, start, stop), start, start) for start, stop in pairwise(starts)]
    last = starts[-1]
    ends = [found.start() for found in islice(_LINE_END.finditer(text, last), 200)]
    stops = [_stripped(text, last, end) for end in [*ends, len(text)]]
    known_stop = next((stop for stop in stops if text[last:stop] in known), None)
    if known_stop is None:
        blank = _BLANK.search(text, last)
        known_stop = _stripped(text, last, blank.start() if blank else len(text))
    return [*items, Item(last, known_stop, last, last)]


def lines(text: str, known: Known) -> list[Item]:
    """Return each line that is not blank."""
    del known
    items: list[Item] = []
    at = 0
    for line in text.split("\n")[:_MOST_ITEMS]:
        if line.strip():
            items.append(Item(at, _stripped(text, at, at + len(line)), at, at))
        at += len(line) + 1
    return items


def _stripped(text: str, start: int, stop: int) -> int:
    """Return the end of `text[start:stop]` without white space after it."""
    while stop > start and text[stop - 1] in " \t\r\n":
        stop -= 1
    return stop


SPLITS: list[tuple[Split, bool]] = [
    (tagged, True),
    *((_labelled(pattern), True) for pattern in _LABELS),
    (asked, True),
    (paragraphs, False),
    (lines, False),
]
"""Ways to find items, the clearest first; the flag says that what is found is all of one list, and nothing else."""
