"""A tree of sent prompts, each edge with the time of its last use and the prefixes stored at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from kvtool.accounting.branching import Branching
from kvtool.accounting.prefix_tree import Ids
from kvtool.accounting.token_store import TokenStore
from kvtool.text.align import common_prefix

SHORT, LONG = 300.0, 3600.0
"""The two times, in seconds, for which a marked prefix can be kept."""


class StoredPrefix:
    """A stored prefix, last used at `entry` (None: not stored). It is kept for `ttl` seconds (None: for good) and can be read from
    `ready` on, when the request that stored it had its first token; `until` is when that was answered, if known."""

    __slots__ = ("entry", "ready", "ttl", "until")

    def __init__(self, used: float) -> None:
        self.entry: float | None = None
        self.ready = self.until = used
        self.ttl: float | None = None

    def alive(self, since: float, now: float) -> bool:
        """Return whether a prefix used at `since` is still kept."""
        return self.ttl is None or now - since <= self.ttl

    def can_be_read(self, now: float) -> bool:
        """Return whether it is stored, still kept, and ready."""
        return self.entry is not None and self.ready <= now and self.alive(self.entry, now)

    def renew(self, use: Use, ttl: float | None, *, since: float | None) -> None:
        """Store the prefix, or go on keeping it where it was used at `since` and is still there."""
        if since is not None and self.alive(since, use.now):
            if self.ttl is not None:
                self.ttl = None if ttl is None else max(self.ttl, ttl)
            return
        self.ttl, self.ready, self.until = ttl, use.ready, use.until

    def store(self, use: Use, ttl: float | None) -> None:
        """Store the prefix at the end of a request's block, as used now."""
        self.renew(use, ttl, since=self.entry)
        self.entry = use.now


class TimedNode(StoredPrefix, Branching):
    """An edge of the tree, last sent at `used` with these `settings`, and the stored prefix that ends with it, if any.

    Its tokens are at positions `[start, stop)` of a sequence, and from place `at` on in the tree's store.
    """

    __slots__ = ("at", "below", "counted", "first", "settings", "start", "stop", "used")

    def __init__(self, first: int, at: int, start: int, stop: int, used: float) -> None:
        super().__init__(used)
        self.first = first
        self.below = None
        self.at = at
        self.start = start
        self.stop = stop
        self.used = used
        self.settings = 0
        self.counted: int | None = None
        """The provider's tokens of the prefix that ends with it, where a report gives them."""


class Use:
    """A request as it uses the tree: when it came, when its first token and its last one did, and with which settings."""

    __slots__ = ("now", "ready", "settings", "until")

    def __init__(self, now: float, ready: float | None = None, until: float | None = None, settings: int = 0) -> None:
        self.now = now
        self.ready = now if ready is None else ready
        self.until = self.ready if until is None else until
        self.settings = settings


_MOST_WALKED = 4
"""Sequences whose edges are kept."""


class TimedTree:
    """All token sequences of one namespace, each edge with the time of its last use. Several trees may have one store."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store
        self.root = TimedNode(-1, 0, 0, 0, 0.0)
        self._walked: list[tuple[Ids, list[TimedNode]]] = []
        """The latest sequences with their edges, the last one first: most requests go on with one of them."""

    def path(self, ids: Ids) -> list[TimedNode]:
        """Return the edges that a sequence runs through; the one in which it leaves the tree is split there."""
        found = self._walked_before(ids)
        node = found[-1] if found else self.root
        at = node.stop
        while at < len(ids):
            child = node.child(int(ids[at]))
            if child is None:
                break
            shared = self._shared(child, ids)
            if shared < child.stop - child.start:
                child = self._split(node, child, shared)
            found.append(child)
            at += shared
            node = child
        others = [each for each in self._walked if each[1] and each[1] != found[: len(each[1])]]
        self._walked = [(ids, list(found)), *others[: _MOST_WALKED - 1]]
        return found

    def _walked_before(self, ids: Ids) -> list[TimedNode]:
        """Return the first edges of a sequence, as far as it begins like one of the latest ones."""
        best: list[TimedNode] = []
        for other, nodes in self._walked:
            shared = common_prefix(other, ids)
            kept, at = 0, 0
            for node in nodes:
                if node.start != at or node.stop > shared:  # another sequence split it, or it goes on otherwise
                    break
                kept, at = kept + 1, node.stop
            if kept > len(best):
                best = nodes[:kept]
            if shared == len(other):
                break
        return best

    def insert(
        self,
        ids: Ids,
        stops: Mapping[int, float | None],
        use: Use,
        kept: tuple[float | None] | None = None,
        counted: Mapping[int, int] | None = None,
    ) -> None:
        """Add a sequence as used now, and store its prefixes of these lengths, each for its own time; `kept`: or all of them.
        `counted` are prefixes whose tokens in the provider's count are reported."""
        counted = counted or {}
        wanted = sorted({0, *(stop for stop in (*stops, *counted) if stop > 0), len(ids)})
        node = self.root
        known = {each.start: each for each in self._walked_before(ids)}
        for start, stop in pairwise(wanted):
            node = self._extend(node, ids[:stop], start, use, kept, known)
            if stop in stops:
                node.store(use, stops[stop])
            node.counted = counted.get(stop, node.counted)

    def nodes(self) -> Iterator[TimedNode]:
        """Return every edge, in no particular order."""
        stack = list(self.root.children)
        while stack:
            node = stack.pop()
            stack.extend(node.children)
            yield node

    def _extend(
        self,
        node: TimedNode,
        ids: Ids,
        start: int,
        use: Use,
        kept: tuple[float | None] | None,
        known: Mapping[int, TimedNode],
    ) -> TimedNode:
        """Go on from a node along the tokens from `start` on, to a node that ends with them; `kept`: the edges themselves are, for
        so long.

        `known` are edges of the sequence, by where they start.
        """
        at = start
        while at < len(ids):
            first, child = int(ids[at]), known.get(at)
            is_known = child is not None and child.start == at and child.stop <= len(ids)
            child = child if is_known else node.child(first)
            new = child is None
            if child is None:
                child = TimedNode(first, self._store.add(ids[at:]), at, len(ids), use.now)
                node.put(child)
            shared = child.stop - at if is_known or new else self._shared(child, ids)
            if shared < child.stop - at:
                child = self._split(node, child, shared)
            if kept is not None:
                child.renew(use, kept[0], since=None if new else child.used)
            child.used = use.now
            child.settings = use.settings
            at += shared
            node = child
        return node

    def _shared(self, node: TimedNode, ids: Ids) -> int:
        """Return how many tokens of an edge a sequence has in their places."""
        return self._store.common_prefix(node.at, node.at + node.stop - node.start, ids[node.start :])

    def _split(self, parent: TimedNode, child: TimedNode, length: int) -> TimedNode:
        """Return the upper part of an edge, cut after so many tokens."""
        upper = TimedNode(child.first, child.at, child.start, child.start + length, child.used)
        upper.ready, upper.until, upper.ttl, upper.settings = child.ready, child.until, child.ttl, child.settings
        child.at += length
        child.start += length
        parent.put(upper)  # in place of the child, as long as that begins alike
        child.first = int(self._store.read(child.at, child.at + 1)[0])
        upper.put(child)
        return upper

    def ids(self, node: TimedNode) -> Ids:
        """Return the tokens of an edge, not to be changed."""
        return self._store.read(node.at, node.at + node.stop - node.start)
