"""The heaviest parts of a prefix tree, with the prompts that pass them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kvtool.accounting.prefix_tree import PrefixNode, RadixTree

Owner = Callable[[int], tuple[str, int]]
"""Group and prompt tokens of a request, by its number."""
Known = Mapping[PrefixNode, Counter[str]]
"""Prompts without a new token, by the edge at whose end they end and by group."""


@dataclass(slots=True, eq=False)
class TreePart:
    """Tokens `[start, stop)` that the same `requests` prompts pass: an edge, several without a branch between them, or half of
    one.

    An edge with the end of a prompt and the beginning of its answer is two parts: only later prompts pass the second.
    """

    parent: TreePart | None
    start: int
    stop: int
    requests: int
    edges: list[PrefixNode]
    groups: Counter[str] = field(default_factory=Counter)
    """The prompts that pass, by group; only of parts that `WeighedTree.heaviest` gives."""

    @property
    def weight(self) -> int:
        """Tokens of prompts in this part."""
        return (self.stop - self.start) * self.requests


class WeighedTree:
    """A tree read in tokens: each id is `unit` tokens."""

    def __init__(self, tree: RadixTree, unit: int, owner: Owner) -> None:
        self._tree = tree
        self._unit = unit
        self._owner = owner

    def heaviest(self, most: int, known: Known) -> tuple[int, list[TreePart]]:
        """Return the tokens of all prompts, and their heaviest parts with all parts before these: a parent before its children."""
        total = 0
        heap: list[tuple[int, int, TreePart]] = []
        for order, part in enumerate(self._parts()):
            total += part.weight
            heapq.heappush(heap, (part.weight, -order, part))
            if len(heap) > most:
                heapq.heappop(heap)
        chosen = _with_parents([part for _, _, part in sorted(heap, reverse=True)], most)
        self._count_groups(chosen, known)
        return total, chosen

    def _parts(self) -> Iterator[TreePart]:
        """Iterate over every part that a prompt passes, with memory only for the path to it."""
        waiting: list[tuple[TreePart | None, Iterator[PrefixNode], PrefixNode | None]]
        waiting = [(None, iter(self._tree.root.children), None)]
        while waiting:
            parent, nodes, done = waiting[-1]
            node = next(nodes, None)
            if node is None:
                waiting.pop()
            elif node is not done and self._requests(node):
                opened: list[TreePart] = []
                while node is not None:
                    parent = self._add(node, parent, opened)
                    following = self._only_child(node, parent.requests)
                    waiting.append((parent, iter(node.children), following))
                    node = following
                yield from opened

    def _add(self, node: PrefixNode, parent: TreePart | None, opened: list[TreePart]) -> TreePart:
        """Make a part of an edge, or make it one with the part before it; return the part in which it ends."""
        for start, stop, requests in self._part_ranges(node):
            if parent is not None and parent.requests == requests:
                parent.stop = stop
                parent.edges.append(node)
            else:
                parent = TreePart(parent, start, stop, requests, [node])
                opened.append(parent)
        assert parent is not None, "an edge that no prompt passes"
        return parent

    def _only_child(self, node: PrefixNode, requests: int) -> PrefixNode | None:
        """Return the child to which all of these prompts continue, without a branch."""
        return next((child for child in node.children if self._requests(child) == requests), None)

    def _requests(self, node: PrefixNode) -> int:
        """Return prompts that pass the first token of an edge."""
        return node.uses + (self._owner(node.owner)[1] > node.start * self._unit)

    def _end(self, node: PrefixNode) -> tuple[int, int]:
        """Return, in tokens, where the prompt of an edge's owner leaves it, and where it ends."""
        start, stop = node.start * self._unit, node.stop * self._unit
        end = min(max(self._owner(node.owner)[1], start), stop)
        partial = start < end and stop - end < self._unit and not node.children  # the last block of a trace may be
        return end, end if partial else stop

    def _part_ranges(self, node: PrefixNode) -> Iterator[tuple[int, int, int]]:
        """Return start, stop and requests of an edge owner's prompt, and of its answer that others sent."""
        start = node.start * self._unit
        end, stop = self._end(node)
        if start < end:
            yield start, end, node.uses + 1
        if end < stop and node.uses:
            yield end, stop, node.uses

    def _count_groups(self, chosen: list[TreePart], known: Known) -> None:
        """Enter the group of each prompt into the last part that it passes, and then into those before that."""
        on_edge: dict[PrefixNode, list[TreePart]] = {}
        for part in chosen:
            for edge in part.edges:
                on_edge.setdefault(edge, []).append(part)
        waiting: list[tuple[TreePart | None, Iterator[PrefixNode]]] = [(None, iter(self._tree.root.children))]
        while waiting:
            parent, nodes = waiting[-1]
            node = next(nodes, None)
            if node is None:
                waiting.pop()
                continue
            parts = on_edge.get(node, ())
            last = parts[-1] if parts else parent
            if last is None:
                continue  # nothing below fits
            group, tokens = self._owner(node.owner)
            if node.start * self._unit < tokens <= node.stop * self._unit:
                (parts[0] if parts else last).groups[group] += 1
            last.groups.update(known.get(node, ()))
            waiting.append((last, iter(node.children)))
        for part in reversed(chosen):
            if part.parent is not None:
                part.parent.groups.update(part.groups)


def _with_parents(parts: list[TreePart], most: int) -> list[TreePart]:
    """Select parts in order, as long as there is room for each with all parts before it; parents before their children.

    The parts before the others fill any room left.
    """
    chosen: dict[TreePart, list[TreePart]] = {}
    """Each with its children."""
    for whole in (True, False):
        for part in parts:
            path: list[TreePart] = []
            at: TreePart | None = part
            while at is not None and at not in chosen:
                path.append(at)
                at = at.parent
            room = most - len(chosen)
            if len(path) <= room or not whole:
                chosen.update((each, []) for each in path[::-1][:room])
    waiting: list[TreePart] = []
    for part in chosen:
        (waiting if part.parent is None else chosen[part.parent]).append(part)
    ordered: list[TreePart] = []
    waiting.sort(key=_lightest)
    while waiting:
        part = waiting.pop()
        ordered.append(part)
        waiting += sorted(chosen[part], key=_lightest)
    return ordered


def _lightest(part: TreePart) -> tuple[int, int]:
    return part.requests, part.weight
