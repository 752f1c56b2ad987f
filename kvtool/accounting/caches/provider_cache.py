"""The prompt cache of a provider: a minimum, steps, breakpoints and a time to live, over a tree of what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kvtool.accounting.caches.breakpoints import ContentBlocks, find_blocks
from kvtool.accounting.caches.cache_rules import CacheRules, Outcome
from kvtool.accounting.caches.providers import Provider
from kvtool.accounting.prefix_tree import Ids
from kvtool.text.align import common_prefix
from kvtool.workload.jobs import Job


class TimedNode:
    """An edge of the tree, last sent at `used`; the stored prefix that ends with it, if any, was last used at `entry`."""

    __slots__ = ("children", "entry", "ids", "start", "used")

    def __init__(self, ids: Ids, start: int, used: float) -> None:
        self.ids = ids
        self.start = start
        self.used = used
        self.entry: float | None = None
        self.children: dict[int, TimedNode] = {}

    @property
    def stop(self) -> int:
        return self.start + len(self.ids)


class TimedTree:
    """All token sequences of one namespace, each edge with the time of its last use."""

    def __init__(self) -> None:
        self.root = TimedNode(np.empty(0, dtype=np.int32), 0, 0.0)

    def path(self, ids: Ids) -> list[TimedNode]:
        """The edges that a sequence runs through; the one in which it leaves the tree is split there."""
        found: list[TimedNode] = []
        node, at = self.root, 0
        while at < len(ids):
            child = node.children.get(int(ids[at]))
            if child is None:
                break
            shared = common_prefix(child.ids, ids[at:])
            if shared < len(child.ids):
                child = _split(node, child, shared)
            found.append(child)
            at += shared
            node = child
        return found

    def insert(self, ids: Ids, stops: Sequence[int], now: float) -> None:
        """Add a sequence as used now, and store its prefixes of these lengths."""
        wanted = sorted({0, *(stop for stop in stops if stop > 0), len(ids)})
        node = self.root
        for start, stop in pairwise(wanted):
            node = self._extend(node, ids[start:stop], start, now)
            if stop in stops:
                node.entry = now

    def _extend(self, node: TimedNode, ids: Ids, start: int, now: float) -> TimedNode:
        """Go on from a node along these tokens, to a node that ends with them."""
        at = 0
        while at < len(ids):
            child = node.children.get(int(ids[at]))
            if child is None:
                child = TimedNode(ids[at:].copy(), start + at, now)
                node.children[int(ids[at])] = child
            shared = common_prefix(child.ids, ids[at:])
            if shared < len(child.ids):
                child = _split(node, child, shared)
            child.used = now
            at += shared
            node = child
        return node


def _split(parent: TimedNode, child: TimedNode, length: int) -> TimedNode:
    upper = TimedNode(child.ids[:length].copy(), child.start, child.used)
    upper.children[int(child.ids[length])] = child
    parent.children[int(upper.ids[0])] = upper
    child.ids = child.ids[length:].copy()
    child.start += length
    return upper


@dataclass(slots=True)
class _Found:
    """Lengths in tokens: alive and long enough; long enough; at all."""

    hit: int = 0
    lasting: int = 0
    short: int = 0


class ProviderCache:
    """Follows `Provider` rules. A salt has a cache of its own; nothing is ever evicted for want of room, as nobody says how much
    there is."""

    def __init__(self, rules: CacheRules) -> None:
        assert rules.provider is not None
        self.provider: Provider = rules.provider
        self.ttl = rules.ttl
        self._trees: dict[str, TimedTree] = {}

    @property
    def num_evictions(self) -> int:
        return 0

    @property
    def num_filled(self) -> int:
        return sum(len(node.ids) for tree in self._trees.values() for node in _nodes(tree)) // self.provider.step

    def request(self, job: Job, now: float, reachable: int) -> Outcome:
        """Look a request up and store it; its fates are those of a time that passed, a minimum and a breakpoint that is missing."""
        tree = self._trees.setdefault(job.turn.salt or "", TimedTree())
        ids, provider = job.ids, self.provider
        blocks = find_blocks(job, provider) if provider.keeps == "breakpoints" else None
        path = tree.path(ids)
        found = self._prefix(path, now) if provider.keeps == "prefix" else self._entries(path, blocks, now)
        most = max(len(ids) - 1, 0)
        hit, lasting, short = (min(length, most) // provider.step * provider.step for length in self._lengths(found))
        for node in path:
            if node.entry is not None and node.stop <= found.hit:
                node.entry = now
        self._store(tree, job, blocks, path, now)
        rungs = [("expired", lasting)] if self.ttl is not None else []
        if provider.minimum > 1:
            rungs.append(("below_minimum", short))
        if provider.keeps != "prefix":
            rungs.append(("unmarked", reachable))
        return Outcome(hit, tuple(rungs))

    def _lengths(self, found: _Found) -> tuple[int, int, int]:
        """With the minimum applied, which counts whole steps."""
        provider = self.provider

        def kept(length: int) -> int:
            return length if length // provider.step * provider.step >= provider.minimum else 0

        return kept(found.hit), kept(found.lasting), found.short

    def _alive(self, used: float, now: float) -> bool:
        return self.ttl is None or now - used <= self.ttl

    def _prefix(self, path: list[TimedNode], now: float) -> _Found:
        """Every prefix is stored: as far as it is known, and as far as all of it was used lately."""
        found = _Found()
        for node in path:
            if found.hit == node.start and self._alive(node.used, now):
                found.hit = node.stop
            found.lasting = found.short = node.stop
        return found

    def _entries(self, path: list[TimedNode], blocks: ContentBlocks | None, now: float) -> _Found:
        """The longest stored prefix that the request may ask for."""
        asked = None if blocks is None else blocks.readable(self.provider.lookback)
        found = _Found()
        for node in path:
            if node.entry is None or (asked is not None and node.stop not in asked):
                continue
            found.short = node.stop
            if node.stop >= self.provider.minimum:
                found.lasting = node.stop
                if self._alive(node.entry, now):
                    found.hit = node.stop
        return found

    def _store(
        self, tree: TimedTree, job: Job, blocks: ContentBlocks | None, path: list[TimedNode], now: float
    ) -> None:
        ids = job.ids
        match self.provider.keeps:
            case "prefix":
                tree.insert(np.concatenate([ids, job.computed_output()]), (), now)
            case "breakpoints":
                assert blocks is not None
                tree.insert(ids, blocks.marked, now)
            case "requests":
                sequence = np.concatenate([ids, job.computed_output()])
                known = path[-1].stop if path else 0  # what two requests have in common is stored from then on
                tree.insert(sequence, (known, len(ids), len(sequence)), now)


def _nodes(tree: TimedTree) -> Iterator[TimedNode]:
    stack = [tree.root]
    while stack:
        node = stack.pop()
        stack.extend(node.children.values())
        yield node
