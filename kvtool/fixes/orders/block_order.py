"""Put the blocks of a prompt into the order in which an unlimited cache misses least (tier P2)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.diagnose.compare.units import common_prefix
from kvtool.fixes.moves.dangling_references import refers_back, refers_forward
from kvtool.fixes.moves.inserted_content import inserted_content
from kvtool.fixes.moves.jinja_places import has_blocks, with_open_blocks
from kvtool.fixes.moves.question_text import is_tail, leads_over, nearly_all_differ
from kvtool.fixes.turn_texts import TextAt, texts_of, with_texts
from kvtool.text.reordered import rearranged
from kvtool.text.structure.sentences import words_in
from kvtool.text.structure.structure import structure_of
from kvtool.text.structure.text_unit import TextUnit
from kvtool.text.traced import marks_of
from kvtool.workload.turn import Turn

_LOOKED_AT = 8
_MOST_EXACT = 15
_MOST_CELLS = 1 << 23
_Ints = npt.NDArray[np.int64]
_BLANK = re.compile(r"\n(?:[ \t\r]*+\n)++")
_MOST_BLOCKS = 200
_CHARS_PER_TOKEN = 4
_STEADY = 0.8
"""The share of requests that have the same in a block from which on the others are exceptions."""
_LEAST_MARK = 4
"""Characters at the front and the end of a block that must be the same in all requests to know it again by them."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """The mark of a block: its segment's name, or the beginning and the end that it has in all requests."""

    name: str
    front: str
    end: str

    @property
    def is_loose(self) -> bool:
        return not self.name and len(self.front) + len(self.end) < _LEAST_MARK

    def fits(self, text: str, block: Block) -> bool:
        if self.name or block.name:
            return self.name == block.name
        return (
            block.stop - block.start >= max(len(self.front), len(self.end))
            and text.startswith(self.front, block.start)
            and text.endswith(self.end, block.start, block.stop)
        )


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """Orders the blocks of the first text of a role (the prompt itself: "") where they are those that it knows."""

    role: str
    marks: tuple[_Mark, ...]
    """In the order in which the blocks are to stand."""

    @classmethod
    def learn(cls, samples: Sequence[Turn], role: str) -> BlockOrder | None:
        """Return the best order for these requests; None where they share no layout or already have it.

        A block that speaks of what is above it stays after its neighbour, one that speaks of what follows stays before it.
        """
        texts = [str.__str__(found.text) for turn in samples if (found := _first_text(turn, role)) is not None]
        traced = [found.text for turn in samples if (found := _first_text(turn, role)) is not None]
        split = [blocks_of(text) for text in traced]
        if len(texts) < 2 or len({len(blocks) for blocks in split}) > 1 or len(split[0]) < 2:
            return None
        columns = [
            [text[block.start : block.stop] for text, block in zip(texts, row, strict=True)]
            for row in zip(*split, strict=True)
        ]
        marks = [_mark(column, row[0].name) for column, row in zip(columns, zip(*split, strict=True), strict=True)]
        if not all(
            _assigned(marks, text, blocks) == list(range(len(marks))) for text, blocks in zip(texts, split, strict=True)
        ):
            return None
        lengths = [[len(value) // _CHARS_PER_TOKEN + 1 for value in column] for column in columns]
        precedence = [*_precedence(columns), *_before_content(traced, split)]
        order, _ = best_order(columns, lengths, [*precedence, *(_asked_last(columns) if not role else ())])
        return None if order == sorted(order) else cls(role, tuple(marks[index] for index in order))

    def __call__(self, turn: Turn) -> Turn:
        found = _first_text(turn, self.role)
        if found is None:
            return turn
        text = str.__str__(found.text)
        blocks = blocks_of(found.text)
        places = _assigned(self.marks, text, blocks)
        if len(places) != len(self.marks) or sorted(places) == places:
            return turn
        ranges: list[tuple[int, int]] = []
        at = 0
        for place, block in enumerate(blocks):
            source = blocks[places.index(place)]
            ranges += [(at, block.start), (source.start, source.stop)]
            at = block.stop
        ranges.append((at, len(text)))
        return with_texts(turn, {(found.message, found.part): rearranged(found.text, ranges)})


def _first_text(turn: Turn, role: str) -> TextAt | None:
    return next((at for at in texts_of(turn) if at.role == role), None)


def _mark(column: Sequence[str], name: str) -> _Mark:
    if name:
        return _Mark(name, "", "")
    low, high = min(column), max(column)
    ends = [value[::-1] for value in column]
    end = min(ends)[: common_prefix(min(ends), max(ends))]
    return _Mark("", low[: common_prefix(low, high)], end[::-1])


def _assigned(marks: Sequence[_Mark], text: str, blocks: Sequence[Block]) -> list[int]:
    """Return which mark each block has; empty where that is not clear. One mark may say nothing: what no other fits has it."""
    loose = [index for index, mark in enumerate(marks) if mark.is_loose]
    found: list[int] = []
    for block in blocks:
        fitting = [index for index, mark in enumerate(marks) if not mark.is_loose and mark.fits(text, block)]
        exact = [index for index in fitting if marks[index].front == text[block.start : block.stop]] or fitting or loose
        if len(exact) != 1:
            return []
        found.append(exact[0])
    return found if len(set(found)) == len(found) else []


def _before_content(texts: Sequence[str], split: Sequence[Sequence[Block]]) -> list[tuple[int, int]]:
    """Return what keeps a block without inserted content before each block with it that follows."""
    holds = {
        index
        for text, blocks in zip(texts[:_LOOKED_AT], split, strict=False)
        for start, stop in inserted_content(text)
        for index, block in enumerate(blocks)
        if start < block.stop and block.start < stop
    }
    return [(one, other) for other in sorted(holds) for one in range(other) if one not in holds]


def _asked_last(columns: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Return what keeps the last block that differs in nearly every request before its tail, and a line that leads over at the
    end.
    """
    last = len(columns) - 1
    pairs = [(index, last) for index in range(last)] if leads_over(columns[last][0]) else []
    asked = max((index for index, column in enumerate(columns) if nearly_all_differ(column)), default=last)
    words = [words_in(column[0]) for column in columns]
    if is_tail(sum(words[asked + 1 :]), sum(words)):
        pairs += [(asked, index) for index in range(asked + 1, last + 1)]
    return pairs


def _precedence(columns: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for index, column in enumerate(columns):
        if index and refers_back(column[0]):
            pairs.append((index - 1, index))
        if index + 1 < len(columns) and refers_forward(column[0]):
            pairs.append((index, index + 1))
    steady = [index for index, column in enumerate(columns) if _is_steady(column)]
    return [*pairs, *((one, other) for one in steady if len(set(columns[one])) > 1 for other in steady if other > one)]


def _is_steady(column: Sequence[str]) -> bool:
    """Return whether nearly all requests have the same in a block: what a few have instead is no reason to move what all have."""
    return Counter(column).most_common(1)[0][1] >= _STEADY * len(column)


class Block(NamedTuple):
    """Characters `[start, stop)` of a text, no white space at its end; `name` is that of the segment it is, if any."""

    start: int
    stop: int
    name: str = ""


def blocks_of(text: str) -> list[Block]:
    """Return segments where the text is made of named ones, else sections from heading to heading, else paragraphs."""
    segments = _segments(text)
    if segments:
        return segments
    plain = str.__str__(text)
    document = structure_of(plain).blocks
    found = _shown(plain, _sections(document) or _paragraphs(plain, document))[:_MOST_BLOCKS]
    return _with_jinja_blocks(text, found) if has_blocks(text) else found


def _with_jinja_blocks(text: str, blocks: list[Block]) -> list[Block]:
    """Return the blocks with the line ends that Jinja blocks wrote at their ends; as they are where two would overlap."""
    found = [Block(*with_open_blocks(text, block.start, block.stop), block.name) for block in blocks]
    return found if all(one.stop <= other.start for one, other in pairwise(found)) else blocks


def _segments(text: str) -> list[Block]:
    """Return runs of text whose origins name one part after the other, each once."""
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
    """Return sections from heading to heading of the highest level that has several, those above them included; none where no
    level has.
    """
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
    """Return what blank lines part that are in no unit: a list, an element or an introduction with its
    list stays in one piece.
    """
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
    """Yield what stays whole, in order: of a section that has more than one unit, each of them."""
    for child in within.children:
        if child.kind == "section" and len(child.children) > 1:
            yield from _units(child)
        else:
            yield child


def _shown(text: str, blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks without white space at their ends; none of nothing else."""
    return [Block(start, stop, name) for start, end, name in blocks if (stop := _stripped(text, start, end)) > start]


def _stripped(text: str, start: int, stop: int) -> int:
    return start + len(str.__getitem__(text, slice(start, stop)).rstrip())


def best_order(
    values: Sequence[Sequence[Hashable]],
    lengths: Sequence[Sequence[int]],
    precedence: Collection[tuple[int, int]] = (),
) -> tuple[list[int], int]:
    """Return the order of segments with the fewest missed tokens, and their number.

    `values[s][r]` is segment s in request r, and `lengths[s][r]` its tokens (equal values are equally long). `(a, b)` in
    `precedence` keeps segment a before b. Misses of an unlimited cache are the weighted size of the trie of values: exact by
    f(S + s) = f(S) + the lengths of s over the distinct tuples of S + s for up to 15 segments; beyond, the segments go by
    L·d/(d - 1), largest first (L: mean length, d: distinct values, d = 1 before all). Of equal orders the one nearest to the given.
    Raises ValueError where the precedence runs in a circle.
    """
    count = len(values)
    requests = len(values[0]) if count else 0
    names = np.zeros((count, requests), dtype=np.int64)
    for index, row in enumerate(values):
        known: dict[Hashable, int] = {}
        names[index] = [known.setdefault(value, len(known)) for value in row]
    tokens = np.asarray(lengths, dtype=np.int64).reshape(count, requests)
    _, rows = np.unique(names, axis=1, return_index=True)  # equal requests miss once
    rows = np.sort(rows)
    names, tokens = names[:, rows], tokens[:, rows]
    before = [0] * count
    for first, second in precedence:
        before[second] |= 1 << first
    if count <= _MOST_EXACT and (names.shape[1] << count) <= _MOST_CELLS:
        return _exact(names, tokens, before)
    order = _by_rule(names, tokens, before)
    return order, missed(names[order], tokens[order])


def missed(names: _Ints, tokens: _Ints) -> int:
    """Count tokens that an unlimited cache misses: `names[s, r]` and `tokens[s, r]` of segments in their order."""
    total = 0
    parts = np.zeros(names.shape[1], dtype=np.int64)
    for row, length in zip(names, tokens, strict=True):
        parts, firsts = _split(parts, row)
        total += int(length[firsts].sum())
    return total


def _split(parts: _Ints, row: _Ints) -> tuple[_Ints, _Ints]:
    """Return classes of requests that agree in `parts` and in `row`, and the first request of each."""
    width = int(row.max(initial=0)) + 1
    _, firsts, classes = np.unique(parts * width + row, return_index=True, return_inverse=True)
    return classes.reshape(-1).astype(np.int64), firsts.astype(np.int64)


def _exact(names: _Ints, tokens: _Ints, before: Sequence[int]) -> tuple[list[int], int]:
    count, requests = names.shape
    best: list[int | None] = [0] + [None] * ((1 << count) - 1)
    last = [0] * (1 << count)
    varies: list[bool] = [bool(row.any()) for row in names]
    parts: list[tuple[_Ints, int, list[int]]] = [
        (np.zeros(requests, dtype=np.int64), 1, tokens[:, :1].sum(axis=1).tolist())
    ]
    for chosen in range(1, 1 << count):
        top = chosen.bit_length() - 1
        classes, number, added = parts[chosen & ~(1 << top)]
        if varies[top] and number < requests:  # else nothing is told apart by it
            classes, firsts = _split(classes, names[top])
            number, added = len(firsts), tokens[:, firsts].sum(axis=1).tolist()
        parts.append((classes, number, added))
        for segment in range(count):
            rest = chosen & ~(1 << segment)
            so_far = best[rest]
            if rest == chosen or so_far is None or before[segment] & ~rest:
                continue
            value, least = so_far + added[segment], best[chosen]
            if least is None or value <= least:
                best[chosen], last[chosen] = value, segment
    order: list[int] = []
    chosen = (1 << count) - 1
    total = best[chosen]
    if total is None:
        raise ValueError("the precedence of segments runs in a circle")
    while chosen:
        order.append(last[chosen])
        chosen &= ~(1 << last[chosen])
    return order[::-1], total


def _by_rule(names: _Ints, tokens: _Ints, before: Sequence[int]) -> list[int]:
    weights: list[float] = []
    for row, length in zip(names, tokens, strict=True):
        distinct, firsts = np.unique(row, return_index=True)
        d = len(distinct)
        weights.append(float(length[firsts].mean()) * d / (d - 1) if d > 1 else float("inf"))
    order: list[int] = []
    placed = 0
    while len(order) < len(names):
        free = [each for each in range(len(names)) if not placed >> each & 1 and not before[each] & ~placed]
        if not free:
            raise ValueError("the precedence of segments runs in a circle")
        order.append(max(free, key=lambda each: (weights[each], -each)))
        placed |= 1 << order[-1]
    return order
