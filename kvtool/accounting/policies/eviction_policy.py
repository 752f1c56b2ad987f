"""The interface of all eviction policies, and the hits of a prefix cache under one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class EvictionPolicy(Protocol):
    """A cache of a fixed number of blocks, which are named by whole numbers. A block that is missed is admitted at once."""

    def __contains__(self, block: int, /) -> bool:
        """Return whether a block is resident, without a change."""
        ...

    def access(self, block: int) -> None:
        """Use a block: if it is not resident it becomes so, and another one goes where there is no room."""
        ...


def leading_hits(resident: EvictionPolicy, blocks: Sequence[int]) -> int:
    """Return the leading blocks that are resident, up to the first that is not."""
    for at, block in enumerate(blocks):
        if block not in resident:
            return at
    return len(blocks)


def prefix_hits(policy: EvictionPolicy, requests: Iterable[Sequence[int]]) -> int:
    """Return the hits of a prefix cache: the leading blocks of each request, counted before all its blocks are used, the last
    first."""
    return sum(hits_of_each(policy, requests))


def hits_of_each(policy: EvictionPolicy, requests: Iterable[Sequence[int]]) -> list[int]:
    """Return the same of each request."""
    hits = []
    access = policy.access
    for blocks in requests:
        hits.append(leading_hits(policy, blocks))
        for block in reversed(blocks):
            access(block)
    return hits
