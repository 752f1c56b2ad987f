"""Blocks with a line that introduces them: `Documents:` and what is below it, an element in tags, a section with a heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kvtool.text.structure.sentences import introduces
from kvtool.text.structure.tag_name import TAG_NAME

_TAG = re.compile(rf"[ \t]*<({TAG_NAME})(?:[ \t][^<>\n]*)?>[ \t\r]*")
_HEADING = re.compile(r"#{1,6}[ \t]+\S[^\n]{0,120}")


class FramedBlock(NamedTuple):
    """Characters `[start, stop)` of a text, whole lines; `head` is the first of them, white space at its ends aside."""

    head: str
    start: int
    stop: int


def framed_blocks(text: str) -> Iterator[FramedBlock]:
    """Yield the blocks of a text that a line introduces, in order; none is inside of another one.

    An element ends with its closing tag, any other block before the next blank line.
    """
    plain = str.__str__(text)
    at = 0
    while at < len(plain):
        end = plain.find("\n", at)
        end = len(plain) if end < 0 else end
        line = plain[at:end]
        if is_frame(line) and (stop := _end_of_block(plain, line, end)) is not None:
            yield FramedBlock(line.strip(), at, stop)
            at = stop + 1
            continue
        at = end + 1


def is_frame(line: str) -> bool:
    """Return whether a line may introduce a block."""
    return _TAG.fullmatch(line) is not None or introduces(line) or _HEADING.fullmatch(line.strip()) is not None


def _end_of_block(text: str, head: str, end: int) -> int | None:
    """Return where a block ends whose first line ends at `end`; None where nothing is in it."""
    if (tag := _TAG.fullmatch(head)) is not None:
        closing = text.find(f"</{tag[1]}>", end)
        return None if closing < 0 else closing + len(tag[1]) + 3
    blank = re.compile(r"\n[ \t\r]*(?=\n)").search(text, end + 1)
    stop = len(text.rstrip()) if blank is None else blank.start()
    return stop if text[end:stop].strip() else None
