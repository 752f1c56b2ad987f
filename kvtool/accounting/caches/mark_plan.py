"""Marks that are tried in place of a log's own: which prefixes are stored, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvtool.accounting.caches.breakpoints import ContentBlocks
from kvtool.accounting.caches.forks import Forks
from kvtool.accounting.caches.timed_tree import LONG, SHORT, TimedNode, TimedTree
from kvtool.accounting.prefix_tree import Ids

TTLS = (None, SHORT, LONG)
"""Choices for a prefix: no mark, a mark for five minutes, a mark for an hour."""


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """Marks of edges of an earlier run's trees, by the number of `TTLS`; `trees` are those of the scopes.

    With `only` a request keeps its own marks except on those edges; else it has no others.
    """

    trees: Mapping[str, TimedTree]
    ways: Mapping[TimedNode, int]
    only: bool = False

    def marked(
        self, scope: str, ids: Ids, blocks: ContentBlocks, forks: Forks, most: int
    ) -> Mapping[int, float | None]:
        """Return the marks of a request with these forked tokens: at ends of its blocks, a longer time before a shorter one,
        `most` at most, the latest."""
        tree = self.trees.get(scope)
        path = [] if tree is None else tree.path(ids)
        if self.only and not any(node in self.ways for node in path):
            return blocks.marked
        marks = dict(blocks.marked) if self.only else {}
        for node in path:
            way = self.ways.get(node)
            if way == 0:
                marks = {end: ttl for end, ttl in marks.items() if forks.there(end) <= node.start}
                break
            inside = [end for end in blocks.ends if node.start < forks.there(end) <= node.stop]
            if way is not None and inside:
                marks[inside[-1]] = TTLS[way]
        return _in_order(marks, most)


def _in_order(marks: Mapping[int, float | None], most: int) -> Mapping[int, float | None]:
    """Drop marks before a longer time, which a provider refuses; the last of them stores the same tokens."""
    kept: dict[int, float | None] = {}
    longest = 0.0
    for end in sorted(marks, reverse=True):
        if (marks[end] or SHORT) >= longest:
            longest = marks[end] or SHORT
            kept[end] = marks[end]
    return dict(sorted(sorted(kept.items())[-most:]))
