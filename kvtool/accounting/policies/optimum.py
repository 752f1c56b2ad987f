"""The most that any policy can hit of a prefix cache, known afterwards (Belady 1966, for whole requests)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def optimal_hits(requests: Sequence[Sequence[int]], capacity: int | None, asked: Sequence[int] | None = None) -> int:
    """Return the hits of a cache that knows the future: at the end of a request the blocks with the farthest next use are evicted.

    A request looks up the first `asked` of its blocks, and stores all of them; without, it looks up all. None is unlimited.

    Of equals the deepest of their request are evicted first; the request's own blocks may be, too. A block's next use is never
    after that of later blocks in its chain, so whole prefixes stay, and no policy of the same capacity hits more.
    """
    return sum(optimal_hits_of_each(requests, capacity, asked))


def optimal_hits_of_each(
    requests: Sequence[Sequence[int]], capacity: int | None, asked: Sequence[int] | None = None
) -> list[int]:
    """Return the same of each request."""
    next_use = _next_uses(requests, asked)
    resident: dict[int, int] = {}  # by block, the number of the request that uses it next
    farthest: list[tuple[int, int, int]] = []
    never = len(requests)
    found = []
    for at, blocks in enumerate(requests):
        hits = 0
        for block in blocks if asked is None else blocks[: asked[at]]:
            if block not in resident:
                break
            hits += 1
        found.append(hits)
        for depth, (block, use) in enumerate(zip(blocks, next_use[at], strict=True)):
            if use == never:
                resident.pop(block, None)  # of no use to anybody
                continue
            resident[block] = use
            heapq.heappush(farthest, (-use, -depth, block))
        while capacity is not None and len(resident) > capacity:
            use, _, block = heapq.heappop(farthest)
            if resident.get(block) == -use:
                del resident[block]
    return found


def _next_uses(requests: Sequence[Sequence[int]], asked: Sequence[int] | None) -> list[list[int]]:
    """Return for each block of each request the number of the next request that has it, if that one looks it up.

    Else the count of requests: a request that only stores a block does not use it.
    """
    later: dict[int, int] = {}
    never = len(requests)
    uses: list[list[int]] = []
    for at in range(len(requests) - 1, -1, -1):
        uses.append([later.get(block, never) for block in requests[at]])
        later.update(dict.fromkeys(requests[at], at))
        if asked is not None:
            later.update(dict.fromkeys(requests[at][asked[at] :], never))
    uses.reverse()
    return uses
