"""The blocks of a text that can change places: named segments, sections under headings, paragraphs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from kvtool.text.structure.structure import structure_of
from kvtool.text.structure.text_unit import TextUnit
from kvtool.text.traced import marks_of

_BLANK = re.compile(r"\n(?:[ \t\r]*+\n)++")
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
    document = structure_of(plain).blocks
    return _shown(plain, _sections(document) or _paragraphs(plain, document))[:_MOST_BLOCKS]


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


def _sections(document: TextUnit) -> list[Block]:
    """From heading to heading of the highest level that has several, those above them included; none where no level has."""
    starts: list[int] = []
    within = document
    while True:
        sections = [child for child in within.children if child.kind == "section"]
        starts += [section.start for section in sections]
        if len(sections) != 1:
            break
        within = sections[0]
    return (
        [Block(start, stop) for start, stop in pairwise([0, *starts, document.stop])]
        if len(starts) > 1 and sections
        else []
    )


def _paragraphs(text: str, document: TextUnit) -> list[Block]:
    """What blank lines part that stand in no unit: a list, an element or an introduction with its list stays in one piece."""
    blocks: list[Block] = []
    units = list(_units(document))
    begin = 0
    for found in _BLANK.finditer(text):
        index = bisect_right(units, found.start(), key=lambda unit: unit.start) - 1
        if index < 0 or units[index].stop <= found.start():
            blocks.append(Block(begin, found.start()))
            begin = found.end()
    return [*blocks, Block(begin, len(text))]


def _units(within: TextUnit) -> Iterator[TextUnit]:
    """What stays whole, in order: of a section that has more than one unit, each of them."""
    for child in within.children:
        if child.kind == "section" and len(child.children) > 1:
            yield from _units(child)
        else:
            yield child


def _shown(text: str, blocks: Iterable[Block]) -> list[Block]:
    """The blocks without white space at their ends; none of nothing else."""
    return [Block(start, stop, name) for start, end, name in blocks if (stop := _stripped(text, start, end)) > start]


def _stripped(text: str, start: int, stop: int) -> int:
    return start + len(str.__getitem__(text, slice(start, stop)).rstrip())
