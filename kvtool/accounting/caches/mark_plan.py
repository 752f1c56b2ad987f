"""Marks that are tried in place of a log's own: which prefixes are stored, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvtool.accounting.caches.breakpoints import ContentBlocks
from kvtool.accounting.caches.forks import Forks
from kvtool.accounting.caches.timed_tree import LONG, SHORT, TimedNode, TimedTree
from kvtool.accounting.prefix_tree import Ids

TTLS = (None, SHORT, LONG)
"""Of a prefix that is not marked, marked for five minutes, and for an hour."""


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """How edges of the trees of an earlier run are marked, by the number of `TTLS`; `trees` are those of the scopes.

    With `only` a request keeps its own marks but for those edges; else it has no others.
    """

    trees: Mapping[str, TimedTree]
    ways: Mapping[TimedNode, int]
    only: bool = False

    def marked(
        self, scope: str, ids: Ids, blocks: ContentBlocks, forks: Forks, most: int
    ) -> Mapping[int, float | None]:
        """The marks of a request with these parted tokens: at ends of its blocks, a longer time before a shorter one, `most` at
        most, the latest."""
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
    """Without those that a longer time follows, which a provider refuses; the last of them stores what they would."""
    kept: dict[int, float | None] = {}
    longest = 0.0
    for end in sorted(marks, reverse=True):
        if (marks[end] or SHORT) >= longest:
            longest = marks[end] or SHORT
            kept[end] = marks[end]
    return dict(sorted(sorted(kept.items())[-most:]))
