"""Places of a rendered text at which no Jinja block of its template is open: only there can the template take a moved text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from kvtool.fixes.edits.edits_template import NotEditableError, Range, shape_of
from kvtool.text.structure.masking import Span
from kvtool.text.traced import Mark, marks_of

_TAG = "{%"
_MACRO = re.compile(r"\{%[-+]?\s*macro\b")


def has_blocks(text: str) -> bool:
    """Return whether a template with statements made any of the text."""
    return any(mark.origin is not None and _TAG in mark.origin.text for mark in marks_of(text))


def last_place_outside(text: str, place: int) -> int:
    """Return the last place at or before one that is inside no Jinja block: no loop, no condition, no macro."""
    spans = open_blocks(text)
    while inside := [start for start, stop in spans if start < place < stop]:
        place = min(inside)
    return place


def open_blocks(text: str) -> list[Span]:
    """Return the ranges of a rendered text that Jinja blocks wrote, the values at their ends included."""
    found: list[Span] = []
    for origin_text in dict.fromkeys(mark.origin.text for mark in marks_of(text) if mark.origin is not None):
        if _TAG in origin_text:
            found += _written_by(origin_text, text)
    return found


def with_open_blocks(text: str, start: int, stop: int) -> Span:
    """Return a range with all of the Jinja blocks that it has all of but white space: their line ends go where they go."""
    for low, high in open_blocks(text):
        if low < stop and start < high and not (text[low:start] + text[stop:high]).strip():
            start, stop = min(start, low), max(stop, high)
    return start, stop


def without_line_ends(text: str, stop: int | None = None) -> int:
    """Return where a text ends without its line ends, up to the last Jinja tag: line ends on its other side stay there."""
    plain = str.__str__(text)
    stop = len(plain) if stop is None else stop
    first = len(plain[:stop].rstrip("\r\n"))
    at = 0
    last: Mark | None = None
    for mark in marks_of(text):
        if first < at < stop and last is not None and _is_parted(last, mark):
            first = at
        last = mark
        at += mark.length
    return first


def _is_parted(before: Mark, after: Mark) -> bool:
    """Return whether a tag of Jinja is between two neighbours in a rendered text."""
    texts = [mark.origin.text for mark in (before, after) if mark.origin is not None]
    return any(_TAG in text for text in texts)


def _written_by(template: str, text: str) -> Iterator[Span]:
    """Yield the ranges that the blocks of one template wrote; nothing where the text shows its tags: then it was not rendered."""
    blocks = _blocks(template)
    starts = [start for start, _ in blocks]
    spans: list[Span] = []
    block: Range | None = None
    at = begin = stop = literal_end = 0
    for length, origin, offset in marks_of(text):
        if origin is not None and origin.variable is not None:  # the values at both ends of a block may be its own
            stop = at + length if stop == at else stop
        else:
            new = block
            if origin is not None and origin.text == template:
                index = bisect_right(starts, offset) - 1
                new = blocks[index] if index >= 0 and offset < blocks[index][1] else None
                if index + 1 < len(starts) and starts[index + 1] < offset + length:
                    return
            elif block is not None and _MACRO.match(template, block[0]):
                new = None
            if new != block:
                if block is not None:
                    spans.append((begin, stop))
                begin, block = literal_end, new
            if origin is not None and origin.text == template:
                stop = at + length
            literal_end = at + length
        at += length
    if block is not None:
        spans.append((begin, stop))
    yield from spans


@lru_cache(maxsize=256)
def _blocks(template: str) -> list[Range]:
    """Return the blocks of a template from tag to tag."""
    try:
        shape = shape_of(template)
    except NotEditableError:
        return []
    return [span for span in shape.solid if span not in shape.expressions and _TAG in template[slice(*span)]]
