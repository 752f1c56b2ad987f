"""A node of a tree of token sequences, with those that continue it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self


class Branching:
    """A node that has children, each found by its first token.

    A conversation adds a node with one child for each request: a dict for that one would take more room than the node. A class of
    nodes has slots for both attributes.
    """

    __slots__ = ()
    first: int
    """The first token of the node."""
    below: Self | dict[int, Self] | None
    """The only child, or all by their first tokens."""

    def child(self, first: int) -> Self | None:
        """Return the child that begins with this token."""
        below = self.below
        if isinstance(below, dict):
            return below.get(first)
        return below if below is not None and below.first == first else None

    def put(self, child: Self) -> None:
        """Add a child; it takes the place of one that begins with the same token."""
        below = self.below
        if isinstance(below, dict):
            below[child.first] = child
        elif below is None or below.first == child.first:
            self.below = child  # type: ignore[misc]  # a slot of each class of nodes
        else:
            self.below = {below.first: below, child.first: child}  # type: ignore[misc]  # likewise

    @property
    def children(self) -> Collection[Self]:
        """The children, in the order in which they came."""
        below = self.below
        if isinstance(below, dict):
            return below.values()
        return () if below is None else (below,)
