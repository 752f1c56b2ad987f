"""The blocks of a text that can change places: named segments, sections under headings, paragraphs."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from kvtool.text.structure.fenced import fenced_ranges
from kvtool.text.traced import marks_of

_HEADING = re.compile(r"^(#{1,6}) ", re.MULTILINE)
_BLANK = re.compile(r"\n(?:[ \t\r]*+\n)++")
_OPENING = re.compile(r"\s*<([A-Za-z][\w.-]{0,40})(?:[ \t][^<>\n]{0,300})?>")
_MOST_BLOCKS = 200


class Block(NamedTuple):
    """Characters `[start, stop)` of a text, no white space at its end; `name` is that of the segment it is, if any."""

    start: int
    stop: int
    name: str = ""


def blocks_of(text: str) -> list[Block]:
    """Segments where the text is made of named ones, else sections from heading to heading, else paragraphs."""
    segments = _segments(text)
    if segments:
        return segments
    plain = str.__str__(text)
    sections = _sections(plain)
    return (sections or _paragraphs(plain))[:_MOST_BLOCKS]


def _segments(text: str) -> list[Block]:
    """Runs of text whose origins name one part after the other, each once."""
    runs: list[Block] = []
    at = 0
    for length, origin, _ in marks_of(text):
        name = origin.part if origin is not None else ""
        if name and runs and runs[-1].name == name:
            runs[-1] = Block(runs[-1].start, at + length, name)
        elif name:
            runs.append(Block(at, at + length, name))
        at += length
    names = [run.name for run in runs]
    if len(runs) < 2 or len(set(names)) < len(names):
        return []
    return [Block(run.start, _stripped(text, run.start, run.stop), run.name) for run in runs]


def _sections(text: str) -> list[Block]:
    fenced = fenced_ranges(text)
    marks = [found for found in _HEADING.finditer(text) if not _inside(found.start(), fenced)]
    levels = [len(found[1]) for found in marks]
    level = next((each for each in sorted(set(levels)) if levels.count(each) > 1), None)
    if level is None:
        return []
    starts = [found.start() for found in marks if len(found[1]) <= level]
    if text[: starts[0]].strip():
        starts.insert(0, 0)
    return [Block(start, _stripped(text, start, stop)) for start, stop in pairwise([*starts, len(text)])]


def _paragraphs(text: str) -> list[Block]:
    """What blank lines part; fenced code and an element with its closing tag stay in one piece."""
    fenced = fenced_ranges(text)
    blocks: list[Block] = []
    begin = at = 0
    until = 0  # the end of an element that was opened
    for found in [*_BLANK.finditer(text), None]:
        stop = found.start() if found else len(text)
        if stop >= until and (opening := _OPENING.match(text, at, stop)):
            close = text.find(f"</{opening[1]}>", opening.end())
            until = max(until, close)
        if found and (stop < until or _inside(stop, fenced)):
            at = found.end()
            continue
        end = _stripped(text, begin, stop)
        if end > begin:
            blocks.append(Block(begin, end))
        begin = at = found.end() if found else stop
    return blocks


def _inside(at: int, ranges: list[tuple[int, int]]) -> bool:
    return any(start < at < stop for start, stop in ranges)


def _stripped(text: str, start: int, stop: int) -> int:
    return start + len(str.__getitem__(text, slice(start, stop)).rstrip())
