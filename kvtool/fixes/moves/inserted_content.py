"""Content that a template inserts: free text of users and documents. No unit moves into it, nor past it where it varies."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache

from kvtool.diagnose.values.classify import MAX_VALUE, OTHER, classify
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.text.structure.masking import Span
from kvtool.text.structure.sentences import words_in
from kvtool.text.traced import Traced

LABEL = re.compile(r"(?:\S[^\n]{0,120}[:\uff1a]|#{1,6}[ \t][^\n]{1,120}|\*\*[^\n]{1,120}\*\*|<[\w -]{1,60}>)[ \t]*")
"""All of a line that introduces the value below it or after it."""
QUOTES = " \t\"'`"
CLOSED = re.compile(r"[ \t\"'`]*(?:\r?\n[ \t\"'`]*)*(?:</[\w -]{1,60}>[ \t]*)?\s*\Z")
"""What may follow the value that a text ends with."""
REST_OF_LINE = re.compile(r"[ \t\"'`]*(?:</[\w -]{1,60}>[ \t]*)?\r?(?=\n|\Z)")


WrittenAt = tuple[str, int, int]
"""Path, line and column of what writes a value."""


def inserted_begin(text: str, after: int, moving: Sequence[Span], constant: Container[WrittenAt] = ()) -> int | None:
    """Return where the first inserted content after a place begins; None without any. What moves itself is none."""
    return min((begin for begin, _ in inserted_content(text, moving, after, constant)), default=None)


def inserted_content(
    text: str, moving: Sequence[Span] = (), after: int = 0, constant: Container[WrittenAt] = ()
) -> Iterator[Span]:
    """Yield inserted content with the line that introduces it, the last first.

    A value is inserted content where nothing but a label is on its line and it has several lines. One that is no clock, id or
    number is inserted content also with more words than a name or a date has, or where nothing but inserted content follows it.
    What is written at `constant` places is the same in all requests, and the author's.
    """
    if not isinstance(text, Traced):
        return
    plain = str.__str__(text)
    end = len(plain)
    for start, stop, place in reversed(list(values_of(text))):
        if start < after or place in constant or any(low < stop and start < high for low, high in moving):
            continue
        begin = _begin_of(plain, start)
        if begin is None or REST_OF_LINE.match(plain, stop) is None:
            continue
        value = plain[start:stop]
        if "\n" in value.strip() or (
            (words_in(value) >= THRESHOLDS.content_words or CLOSED.match(plain, stop, end) is not None)
            and not _is_detected(value)
        ):
            end = len(plain[:begin].rstrip("\r\n"))
            yield end, stop


def begin_of_introduced(text: str, start: int) -> int | None:
    """Return where the label of a value begins, on its line or on the one above; None where there is none."""
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip(QUOTES):
        start = len(text[:line].rstrip(QUOTES + "\r\n"))
        line = text.rfind("\n", 0, start) + 1
    return line if LABEL.fullmatch(text, line, start) is not None else None


def _begin_of(text: str, start: int) -> int | None:
    """Return where a value begins with its label; without one, its line where it is alone there."""
    begin = begin_of_introduced(text, start)
    line = text.rfind("\n", 0, start) + 1
    return line if begin is None and not text[line:start].strip(QUOTES) else begin


def values_of(text: Traced) -> Iterator[tuple[int, int, WrittenAt]]:
    """Yield what variables wrote, neighbours of one variable as one."""
    at = 0
    start, place = 0, None
    for length, origin, _ in text.marks:
        here = None if origin is None or origin.variable is None else (origin.path, origin.line, origin.column)
        if here != place:
            if place is not None:
                yield start, at, place
            start, place = at, here
        at += length
    if place is not None:
        yield start, at, place


def _is_detected(value: str) -> bool:
    """Return whether a value is a clock, an id or a number."""
    shown = value.strip()
    return not shown.strip("0123456789.,:%+- \n") or (len(shown) <= MAX_VALUE and _is_of_a_kind(shown))


@lru_cache(maxsize=2048)
def _is_of_a_kind(value: str) -> bool:
    """Return whether a detector knows a value; the requests of a group have most of theirs in common."""
    return classify(value) is not OTHER
