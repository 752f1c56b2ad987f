"""Sections of a text: each heading with what it heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvtool.text.structure.masking import Span
from kvtool.text.structure.raw_unit import RawUnit


class Heading(NamedTuple):
    """A heading at `[start, stop)`."""

    start: int
    stop: int
    level: int


def sections_of(text: str, headings: Sequence[Heading], scopes: Sequence[Span]) -> Iterator[RawUnit]:
    """From each heading to the next of the same or a higher level, within the element (`scopes`, nested or apart) it stands in."""
    events: list[tuple[int, int, int]] = [(heading.start, 1, index) for index, heading in enumerate(headings)]
    if scopes:
        events += [(start, 2, 0) for start, _ in scopes]
        events += [(stop, 0, 0) for _, stop in scopes]
        events.sort()
    opened: list[list[Heading]] = [[]]
    for at, kind, index in events:
        if kind == 2:
            opened.append([])
        elif kind == 0:
            yield from (_section(text, heading, at) for heading in opened.pop())
        else:
            heading = headings[index]
            while opened[-1] and opened[-1][-1].level >= heading.level:
                yield _section(text, opened[-1].pop(), at)
            opened[-1].append(heading)
    yield from (_section(text, heading, len(text)) for heading in opened[0])


def _section(text: str, heading: Heading, end: int) -> RawUnit:
    start, stop, _ = heading
    while end > stop and text[end - 1].isspace():
        end -= 1
    return tuple.__new__(RawUnit, ("section", start, *((end, stop + 1) if end > stop else (stop, stop))))
