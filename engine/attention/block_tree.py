"""The radix tree of the physical blocks that sequences have in common, and which of its branches are worth a read of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class BlockNode:
    """Blocks [start, end) that only the sequences at `low` … `high - 1` of the sorted order share."""

    low: int
    end: int
    start: int = 0
    high: int = 0
    children: list[BlockNode] = field(default_factory=list)  # of two and more sequences
    alone: list[int] = field(default_factory=list)  # positions of sequences that share nothing after `end`


@dataclass(frozen=True, slots=True)
class Segment:
    """Blocks [start, end) to be read once (or tile by tile) for the sequences, two or more, at `members` of the sorted order."""

    start: int
    end: int
    members: list[int]


@dataclass(frozen=True, slots=True)
class FoldRule:
    """The rule for when sequences read a segment separately instead of together.

    Reading a segment costs its tokens for each tile of `max_queries` sequences. Writing and merging a partial result costs as much
    as reading `part_tokens`. Segments of less than `least_tokens` are not worth an item.
    """

    block_size: int
    max_queries: int
    part_tokens: float
    least_tokens: int

    def too_short(self, blocks: int) -> bool:
        return blocks * self.block_size < self.least_tokens

    def pays(self, count: int, others: int, blocks: int, partials: int) -> bool:
        """Return whether `count` sequences that leave `others` in a segment save more, by `partials` results, than the extra reads
        cost."""
        most = self.max_queries
        more_tiles = (
            (count + others) // -most - count // -most - others // -most
        )  # floors of negatives: ceilings, negated
        return more_tiles * blocks * self.block_size <= partials * self.part_tokens


def common_blocks(left: npt.NDArray[np.int32], right: npt.NDArray[np.int32]) -> Ints:
    """Return int64[n]: how many leading entries of left[i] and right[i] are equal; both [n, W]."""
    count, width = left.shape
    if not width:
        return np.zeros(count, dtype=np.int64)
    different: npt.NDArray[Any] = left != right
    first: Ints = different.argmax(axis=1)
    first[~different[np.arange(count), first]] = width
    return first


def sort_by_blocks(table: npt.NDArray[np.int32], full: Ints) -> tuple[Ints, list[int]]:
    """Return the rows sorted by their first full[i] blocks, equal beginnings together, and the common blocks of neighbours.

    Returns (order int64[n], common[n], of which the last is 0).
    """
    count = len(table)
    first = table[:, 0][full > 0]
    if len(np.unique(first)) == len(first):
        return np.arange(count), [0] * count
    keys = [row[:blocks].tobytes() for row, blocks in zip(table, full.tolist(), strict=True)]  # any total order will do
    order = np.array(sorted(range(count), key=keys.__getitem__), dtype=np.int64)
    ordered = table[order, : int(full.max())]
    # A sequence sorts before those that it is the beginning of, so that the earlier one's end is the one to mind.
    common = np.minimum(common_blocks(ordered[:-1], ordered[1:]), full[order[:-1]])
    return order, [*common.tolist(), 0]


def block_tree(common: list[int]) -> list[BlockNode]:
    """Return the nodes over sorted sequences, children before parents and the root last, in O(n): intervals of common prefixes."""
    stack = [BlockNode(low=0, end=0)]
    nodes: list[BlockNode] = []
    for position, ahead in enumerate(common):
        if ahead > stack[-1].end:
            stack.append(BlockNode(low=position, end=ahead))
        stack[-1].alone.append(position)
        while stack[-1].end > ahead:
            node = stack.pop()
            node.high = position + 1
            if stack[-1].end < ahead:  # the sequences diverge here
                stack.append(BlockNode(low=node.low, end=ahead))
            node.start = stack[-1].end
            stack[-1].children.append(node)
            nodes.append(node)
    (root,) = stack
    root.high = len(common)
    return [*nodes, root]


def shared_segments(common: list[int], goes_on: list[bool], rule: FoldRule) -> tuple[list[Segment], list[int]]:
    """Return the segments to read together, and the first block that each sorted sequence reads alone.

    `common` is the result of `sort_by_blocks`; `goes_on[i]` is set where sequence i has blocks after its shared ones. Go top down,
    the largest branch first: a branch that folds takes over the blocks of its node as its own beginning.
    """
    segments: list[Segment] = []
    alone_from = [0] * len(common)
    for node in reversed(block_tree(common)):
        blocks = node.end - node.start
        if rule.too_short(blocks):
            for child in node.children:
                child.start = node.start
            for position in node.alone:
                alone_from[position] = node.start
            continue
        left = node.high - node.low
        kept: list[BlockNode] = []
        for child in sorted(node.children, key=lambda child: child.low - child.high):
            count = child.high - child.low
            if rule.pays(count, left - count, blocks, count):
                child.start = node.start
                left -= count
            else:
                kept.append(child)
        alone = node.alone  # those that end here sort first, and go last: they have a partial result here or elsewhere
        while alone and rule.pays(1, left - 1, blocks, goes_on[alone[-1]]):
            alone_from[alone.pop()] = node.start
            left -= 1
        for position in alone:
            alone_from[position] = node.end
        if left:  # two or more: if all branches but one pay, that one already paid
            members = alone + [position for child in kept for position in range(child.low, child.high)]
            segments.append(Segment(node.start, node.end, sorted(members)))
    return segments, alone_from
