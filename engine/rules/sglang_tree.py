"""SGLang's radix tree: whole pages of tokens, nodes that are split where prompts diverge, leaves that are evicted whole.

A key is the int32 tokens of a text as bytes, cut to whole pages. A node contains a piece of a key; its children are listed under
their first pages. Children of the root are listed under their scope, too, so that texts of two scopes share no node.

A request updates the nodes of its path (last use, uses, priority) when it ends. Until then the path is locked, so the delay has no
effect, and each walk is made once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import ClassVar, TypeAlias

import numpy as np

TOKEN_BYTES = 4
"""Bytes of a token id in a key."""


class PageNode:
    """A piece of a prefix, with its continuations."""

    __slots__ = ("children", "key", "last_use", "locks", "parent", "priority", "queued", "serial", "under", "uses")

    def __init__(
        self, key: bytes, parent: PageNode | None, under: Hashable, serial: int, last_use: int, priority: int
    ) -> None:
        self.key = key
        self.under = under
        """Its key in its parent."""
        self.parent = parent
        self.children: dict[Hashable, PageNode] = {}
        self.locks = 0
        """Running requests that end here, plus locked children."""
        self.last_use = last_use
        self.uses = 0
        self.priority = priority
        self.serial = serial
        self.queued = False
        """True if the tree's heap contains it as an evictable leaf."""


Rank: TypeAlias = Callable[[PageNode], int]
"""Leaves of the lowest rank go first, among equals the one that was used least recently. A node's rank never falls."""


class PageTree:
    """A radix tree of pages of `page_size` tokens; `rank` orders leaves for eviction."""

    node_type: ClassVar[type[PageNode]] = PageNode

    def __init__(self, page_size: int = 1, rank: Rank = lambda _: 0) -> None:
        self.page_size = page_size
        self.rank = rank
        self.num_tokens = 0
        self.num_locked = 0
        self._page = page_size * TOKEN_BYTES
        self._clock = 0
        self._serial = 0
        self._leaves: list[tuple[int, int, int, PageNode]] = []
        self.root = self.node_type(b"", None, None, 0, 0, 0)

    @property
    def num_evictable(self) -> int:
        """Tokens that no running request uses."""
        return self.num_tokens - self.num_locked

    def pages_of(self, tokens: int) -> int:
        """Return the tokens of a text of which whole pages can be made."""
        return tokens - tokens % self.page_size

    def match(self, scope: Hashable, key: bytes) -> tuple[PageNode, int]:
        """Return the node where the longest prefix of `key` ends, and its tokens; nodes on the way count as used.

        A node in which the prefix ends is split there, and the rest counts as used, too.
        """
        return self._descend(self.root, scope, key[: len(key) - len(key) % self._page], 0)

    def extend(
        self, node: PageNode, scope: Hashable, key: bytes, start: int, priority: int = 0
    ) -> tuple[PageNode, int]:
        """Insert `key`, of which `start` tokens end at `node`: the node where it ends now, and how many tokens were there."""
        key = key[: len(key) - len(key) % self._page]
        node, present = self._descend(node, scope, key, start)
        rest = key[present * TOKEN_BYTES :]
        if rest:
            first = rest[: self._page]
            leaf = self._node(
                rest, node, (scope, first) if scope is not None and node is self.root else first, priority
            )
            node.children[leaf.under] = leaf
            self.num_tokens += len(rest) // TOKEN_BYTES
            return leaf, present
        return node, present

    def _descend(self, node: PageNode, scope: Hashable, key: bytes, start: int) -> tuple[PageNode, int]:
        self._clock += 1
        now, page, end = self._clock, self._page, len(key)
        at = start * TOKEN_BYTES
        while at < end:
            first: Hashable = key[at : at + page]
            if scope is not None and node is self.root:
                first = (scope, first)
            child = node.children.get(first)
            if child is None:
                break
            child.last_use = now
            size = len(child.key)
            if key[at : at + size] == child.key:
                node = child
                at += size
                continue
            shared = _common_bytes(child.key, key, at)
            shared -= shared % page
            node = self.split(child, shared)
            at += shared
            break
        return node, at // TOKEN_BYTES

    def _node(self, key: bytes, parent: PageNode, under: Hashable, priority: int) -> PageNode:
        self._clock += 1
        self._serial += 1
        return self.node_type(key, parent, under, self._serial, self._clock, priority)

    def split(self, node: PageNode, at: int) -> PageNode:
        """Cut a node at `at` bytes and return the front. `node` stays the rest, so its users still have the whole path."""
        assert node.parent is not None
        assert 0 < at < len(node.key)
        front = self._node(node.key[:at], node.parent, node.under, node.priority)
        front.uses = node.uses
        front.locks = 1 if node.locks else 0
        node.parent.children[node.under] = front  # keeps its place among the children
        node.parent = front
        node.key = node.key[at:]
        node.under = node.key[: self._page]
        front.children[node.under] = node
        return front

    def lock(self, node: PageNode) -> None:
        """Keep the path to `node` until `unlock`."""
        while node.parent is not None:
            node.locks += 1
            if node.locks > 1:
                return
            self.num_locked += len(node.key) // TOKEN_BYTES
            node = node.parent

    def unlock(self, node: PageNode) -> None:
        """Take one lock of the path to `node` away."""
        while node.parent is not None:
            node.locks -= 1
            if node.locks:
                return
            self.num_locked -= len(node.key) // TOKEN_BYTES
            if not node.children:
                self._may_go(node)
            node = node.parent

    def tick(self) -> int:
        """Return a moment later than all that has happened."""
        self._clock += 1
        return self._clock

    def use(self, node: PageNode, tokens: int, prompt: int, priority: int, when: int) -> None:
        """Count a use of the path to `node`, which has `tokens`; the first `prompt` of them are worth one more than the rest, if
        there is a rest."""
        raised = priority + (prompt < tokens)
        while node.parent is not None:
            if node.last_use < when:
                node.last_use = when
            node.uses += 1
            worth = raised if tokens <= prompt else priority
            if node.priority < worth:
                node.priority = worth
            tokens -= len(node.key) // TOKEN_BYTES
            node = node.parent

    def _may_go(self, leaf: PageNode) -> None:
        if not leaf.queued:
            leaf.queued = True
            heapq.heappush(self._leaves, (self.rank(leaf), leaf.last_use, leaf.serial, leaf))

    def evict(self, tokens: int) -> int:
        """Evict whole leaves, lowest rank first, until `tokens` are freed or no leaf may be evicted; return the freed tokens.

        The heap may contain ranks from before a leaf was used again. Ranks only grow, so such a leaf is put back at its turn.
        """
        gone = 0
        while gone < tokens and self._leaves:
            rank, last_use, _, leaf = heapq.heappop(self._leaves)
            leaf.queued = False
            if leaf.locks or leaf.children:
                continue  # put back when it is unlocked, or when its last child is evicted
            if (self.rank(leaf), leaf.last_use) != (rank, last_use):
                self._may_go(leaf)
                continue
            gone += self._remove(leaf)
        return gone

    def _remove(self, leaf: PageNode) -> int:
        parent = leaf.parent
        assert parent is not None
        del parent.children[leaf.under]
        leaf.parent = None
        if not parent.children and not parent.locks and parent is not self.root:
            self._may_go(parent)
        tokens = len(leaf.key) // TOKEN_BYTES
        self.num_tokens -= tokens
        return tokens

    def nodes(self) -> Iterator[PageNode]:
        """Return all but the root, parents first."""
        pending = list(self.root.children.values())
        while pending:
            node = pending.pop()
            yield node
            pending += node.children.values()

    def check(self) -> None:
        """Assert that sums, links, locks and the leaves that may go agree with the nodes."""
        assert not self.root.key
        assert not self.root.locks
        queued = {id(leaf) for *_, leaf in self._leaves}
        assert len(queued) == len(self._leaves)
        tokens = locked = 0
        for node in self.nodes():
            assert node.parent is not None
            assert node.parent.children[node.under] is node
            first = node.under[1] if isinstance(node.under, tuple) else node.under
            assert first == node.key[: self._page]
            assert isinstance(node.under, bytes) or node.parent is self.root
            assert node.key
            assert len(node.key) % self._page == 0
            assert node.locks >= sum(child.locks > 0 for child in node.children.values())
            assert node.queued == (id(node) in queued)
            assert node.queued or node.locks or node.children
            tokens += len(node.key) // TOKEN_BYTES
            locked += len(node.key) // TOKEN_BYTES if node.locks else 0
        assert (self.num_tokens, self.num_locked) == (tokens, locked)


def _common_bytes(front: bytes, key: bytes, at: int) -> int:
    """Return bytes of `front` with which `key` goes on from `at`, in whole tokens."""
    size = min(len(front), len(key) - at)
    differ = np.frombuffer(front[:size], np.int32) != np.frombuffer(key[at : at + size], np.int32)
    first = int(differ.argmax())
    return first * TOKEN_BYTES if differ[first] else size
