"""Put the blocks of a prompt into the order in which an unlimited cache misses least (tier P2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.diagnose.compare.units import common_prefix
from kvtool.fixes.moves.dangling_references import refers_back, refers_forward
from kvtool.fixes.moves.question_text import is_tail, leads_over, nearly_all_differ
from kvtool.fixes.orders.blocks import Block, blocks_of
from kvtool.fixes.orders.segments import best_order
from kvtool.fixes.turn_texts import TextAt, texts_of, with_texts
from kvtool.text.reordered import rearranged
from kvtool.text.structure.sentences import words_in
from kvtool.workload.turn import Turn

_CHARS_PER_TOKEN = 4
_STEADY = 0.8
"""The share of requests that have the same in a block from which on the others are exceptions."""
_LEAST_MARK = 4
"""Characters at the front and the end of a block that must be the same in all requests to know it again by them."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """How a block is known: by its segment's name, or by what it begins and ends with in all requests."""

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
        """The best order for these requests; None where they share no layout or already have it.

        A block that speaks of what is above it stays behind its neighbour, one that speaks of what follows stays before it.
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
        order, _ = best_order(columns, lengths, [*_precedence(columns), *(_asked_last(columns) if not role else ())])
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
    """Which mark each block has; empty where that is not clear. One mark may say nothing: what no other fits has it."""
    loose = [index for index, mark in enumerate(marks) if mark.is_loose]
    found: list[int] = []
    for block in blocks:
        fitting = [index for index, mark in enumerate(marks) if not mark.is_loose and mark.fits(text, block)]
        exact = [index for index in fitting if marks[index].front == text[block.start : block.stop]] or fitting or loose
        if len(exact) != 1:
            return []
        found.append(exact[0])
    return found if len(set(found)) == len(found) else []


def _asked_last(columns: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """What keeps the last block that differs in nearly every request before its tail, and a line that leads over at the end."""
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
    """Whether nearly all requests have the same in a block: what a few have instead is no reason to move what all have."""
    return Counter(column).most_common(1)[0][1] >= _STEADY * len(column)
