"""A radix tree over everything that was computed so far: what an unlimited cache could give, for every block size at once.

If the longest common prefix of a prompt with any earlier content has L tokens, then an unlimited cache with blocks of B tokens hits
``min(L, n - 1) // B`` of them. So one number a request answers for all block sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.text.align import common_prefix

Ids = npt.NDArray[np.int32]


class PrefixNode:
    """An edge of the tree and what hangs below it.

    `ids` are the tokens of the edge, the first of which stands at position `start` of every prompt that runs through it; `owner`
    is the request that brought them. `uses` counts the later prompts that ran through the edge, and `recent` is the child that the
    latest one took.
    """

    __slots__ = ("children", "ids", "owner", "recent", "start", "uses")

    def __init__(self, ids: Ids, start: int, owner: int) -> None:
        self.ids = ids
        self.start = start
        self.owner = owner
        self.uses = 0
        self.children: dict[int, PrefixNode] = {}
        self.recent: PrefixNode | None = None

    @property
    def stop(self) -> int:
        return self.start + len(self.ids)

    @property
    def reused(self) -> bool:
        """Whether a later prompt ran through the edge."""
        return self.uses > 0


@dataclass(frozen=True, slots=True)
class Match:
    """How far a prompt was known (`length` tokens), and where it left the tree."""

    length: int
    node: PrefixNode
    """The last edge on the way; the prompt ends or differs at its end."""


class RadixTree:
    """All token sequences seen, in one namespace. Memory grows with their distinct content only."""

    def __init__(self) -> None:
        self.root = PrefixNode(np.empty(0, dtype=np.int32), 0, -1)

    def match(self, prompt: Ids) -> Match:
        """Follow a prompt as far as it is known, counting it as a use of what it runs through."""
        return self._walk(Match(0, self.root), prompt, uses=1)

    def insert(self, sequence: Ids, owner: int, match: Match) -> None:
        """Add a sequence (prompt and computed output) whose prompt matched so far; new edges belong to `owner`."""
        match = self._walk(match, sequence, uses=0)
        if match.length < len(sequence):
            leaf = PrefixNode(sequence[match.length :].copy(), match.length, owner)
            match.node.children[int(leaf.ids[0])] = leaf
            match.node.recent = leaf

    def _walk(self, match: Match, ids: Ids, *, uses: int) -> Match:
        """Go on from a match; the edge in which the sequence ends or leaves the tree is split there."""
        node, at = match.node, match.length
        while at < len(ids):
            child = node.children.get(int(ids[at]))
            if child is None:
                break
            shared = common_prefix(child.ids, ids[at:])
            if shared < len(child.ids):
                child = self._split(node, child, shared)
            child.uses += uses
            node.recent = child
            at += shared
            node = child
        return Match(at, node)

    @staticmethod
    def _split(parent: PrefixNode, child: PrefixNode, length: int) -> PrefixNode:
        upper = PrefixNode(child.ids[:length].copy(), child.start, child.owner)
        upper.uses = child.uses
        upper.children[int(child.ids[length])] = child
        upper.recent = child
        parent.children[int(upper.ids[0])] = upper
        child.ids = child.ids[length:].copy()
        child.start += length
        return upper

    def copy(self) -> RadixTree:
        """A tree that grows apart from this one; the tokens are shared."""
        other = RadixTree()
        stack = [(self.root, other.root)]
        while stack:
            mine, theirs = stack.pop()
            for first, child in mine.children.items():
                twin = PrefixNode(child.ids, child.start, child.owner)
                twin.uses = child.uses
                theirs.children[first] = twin
                if mine.recent is child:
                    theirs.recent = twin
                stack.append((child, twin))
        return other

    def continuation(self, match: Match, most: int) -> Ids:
        """What followed, in the latest content, at the place where a prompt left the tree: up to `most` tokens."""
        pieces: list[Ids] = []
        have = 0
        node = match.node.recent
        while node is not None and have < most:
            pieces.append(node.ids[: most - have])
            have += len(node.ids)
            node = node.recent
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int32)

    def nodes(self) -> Iterator[PrefixNode]:
        """Every edge, in no particular order."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            if len(node.ids):
                yield node

    def check(self) -> None:
        """Assert the tree's invariants."""
        for node in [self.root, *self.nodes()]:
            for first, child in node.children.items():
                assert len(child.ids)
                assert int(child.ids[0]) == first
                assert child.start == node.stop
            assert node.recent is None or node.recent in node.children.values()
