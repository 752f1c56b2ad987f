"""A radix tree over all computed prompts: the best hit of an unlimited cache, for every block size at once.

If the longest common prefix of a prompt with any earlier content has L tokens, then an unlimited cache with blocks of B tokens
hits ``min(L, n - 1) // B`` of them. So one number a request answers for all block sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.accounting.branching import Branching
from kvtool.accounting.token_store import TokenStore

Ids = npt.NDArray[np.int32]


def with_answer(prompt: Ids, answer: Ids) -> Ids:
    """Return all tokens of a request that were computed; the prompt itself where that is all."""
    return np.concatenate([prompt, answer]) if len(answer) else prompt


class PrefixNode(Branching):
    """An edge of the tree and its subtree.

    The tokens of the edge are at positions `[start, stop)` of every prompt that runs through it, and from place `at` on in a
    `store`; `owner` is the request that brought them. `uses` counts the later prompts that ran through the edge, and `recent` is
    the child that the latest one took.
    """

    __slots__ = ("at", "below", "first", "owner", "recent", "start", "stop", "store", "uses")

    def __init__(self, store: TokenStore, first: int, at: int, start: int, stop: int, owner: int) -> None:
        self.first = first
        self.below = None
        self.store = store
        self.at = at
        self.start = start
        self.stop = stop
        self.owner = owner
        self.uses = 0
        self.recent: PrefixNode | None = None

    @property
    def length(self) -> int:
        return self.stop - self.start

    @property
    def ids(self) -> Ids:
        """The tokens of the edge, not to be changed."""
        return self.store.read(self.at, self.at + self.length)

    @property
    def reused(self) -> bool:
        """Return whether a later prompt ran through the edge."""
        return self.uses > 0


@dataclass(frozen=True, slots=True)
class Match:
    """The known part of a prompt (`length` tokens), and the place where it left the tree."""

    length: int
    node: PrefixNode
    """The last edge on the way; the prompt ends or differs at its end."""


class RadixTree:
    """All token sequences seen, in one namespace. Memory grows with their number; a store takes their distinct content."""

    def __init__(self, store: TokenStore | None = None) -> None:
        """Create a tree. Several trees may have one store; None makes one."""
        self._store = TokenStore() if store is None else store
        self.root = PrefixNode(self._store, -1, 0, 0, 0, -1)

    def match(self, prompt: Ids) -> Match:
        """Follow a prompt as far as it is known, and count it as a use of its edges."""
        return self._walk(Match(0, self.root), prompt, uses=1)

    def insert(self, sequence: Ids, owner: int, match: Match) -> None:
        """Add a sequence (prompt and computed output) whose prompt matched so far; new edges belong to `owner`."""
        match = self._walk(match, sequence, uses=0)
        if match.length < len(sequence):
            at = self._store.add(sequence[match.length :])
            leaf = PrefixNode(self._store, int(sequence[match.length]), at, match.length, len(sequence), owner)
            match.node.put(leaf)
            match.node.recent = leaf

    def grow(self, prompt: Ids, sequence: Ids, owner: int = 0) -> int:
        """Add a sequence that begins with a prompt; return how much of the prompt was there."""
        match = self.match(prompt)
        self.insert(sequence, owner, match)
        return match.length

    def _walk(self, match: Match, ids: Ids, *, uses: int) -> Match:
        """Go on from a match; the edge in which the sequence ends or leaves the tree is split there."""
        node, at = match.node, match.length
        while at < len(ids):
            child = node.child(int(ids[at]))
            if child is None:
                break
            shared = self._store.common_prefix(child.at, child.at + child.length, ids[at:])
            if shared < child.length:
                child = self._split(node, child, shared)
            child.uses += uses
            node.recent = child
            at += shared
            node = child
        return Match(at, node)

    def _split(self, parent: PrefixNode, child: PrefixNode, length: int) -> PrefixNode:
        """Return the upper part of an edge, cut after so many tokens."""
        middle = child.start + length
        upper = PrefixNode(self._store, child.first, child.at, child.start, middle, child.owner)
        upper.uses = child.uses
        upper.recent = child
        child.at += length
        child.start = middle
        parent.put(upper)  # in place of the child, as long as that begins alike
        child.first = int(self._store.read(child.at, child.at + 1)[0])
        upper.put(child)
        return upper

    def copy(self) -> RadixTree:
        """Return a tree that grows apart from this one; the store is shared."""
        other = RadixTree(self._store)
        stack = [(self.root, other.root)]
        while stack:
            mine, theirs = stack.pop()
            for child in mine.children:
                twin = PrefixNode(self._store, child.first, child.at, child.start, child.stop, child.owner)
                twin.uses = child.uses
                theirs.put(twin)
                if mine.recent is child:
                    theirs.recent = twin
                stack.append((child, twin))
        return other

    def continuation(self, match: Match, most: int) -> Ids:
        """Return up to `most` tokens that followed, in the latest content, at the place where a prompt left the tree."""
        pieces: list[Ids] = []
        have = 0
        node = match.node.recent
        while node is not None and have < most:
            pieces.append(self._store.read(node.at, node.at + min(node.length, most - have)))
            have += node.length
            node = node.recent
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int32)

    def nodes(self) -> Iterator[PrefixNode]:
        """Return every edge, in no particular order."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            stack.extend(node.children)
            if node.length:
                yield node

    def check(self) -> None:
        """Assert the tree's invariants."""
        for node in [self.root, *self.nodes()]:
            for child in node.children:
                assert child.length
                assert int(child.ids[0]) == child.first
                assert child.start == node.stop
                assert node.child(child.first) is child
            assert node.recent is None or node.recent in node.children
