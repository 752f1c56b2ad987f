"""SGLang's orders of waiting requests: first come, longest match, or depth first through the tree by weight."""

from __future__ import annotations

from kvtool.engine.rules.sglang_memory import RadixMemory
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_request import RadixRequest
from kvtool.engine.rules.sglang_tree import PageNode, PageTree

MOST_MATCHED = 128
"""SGLang's limit of waiting requests that are matched: above it, lpm is fcfs, and no more prefixes are kept warm."""
SHORT_MATCH = 32
"""SGLang's limit in tokens: a request that matches no more in the tree is compared with earlier waiting ones."""
SHARED_WITH_WAITING = 32
"""SGLang's limit in tokens: a request that shares this many with an earlier waiting one is better run after it."""
TOUCHED_EVERY = 32
"""Passes after which the prefixes of waiting requests count as used, under fcfs and lru."""


class QueueOrder:
    """Sorts the queue before each pass; lookups that it makes count as uses, as SGLang's do."""

    def __init__(self, options: SglangOptions, memory: RadixMemory) -> None:
        self._policy = options.schedule_policy
        self._keeps_warm = options.radix_eviction_policy == "lru"
        self._memory = memory
        self._passes = 0

    def sort(self, waiting: list[RadixRequest]) -> None:
        """Sort the queue into the order in which this pass tries its requests."""
        if self._policy == "dfs-weight":
            self._match(waiting)
            waiting[:] = _by_weight(self._memory.tree.root, waiting)
        elif self._policy == "lpm" and len(waiting) <= MOST_MATCHED:
            late = self._match(waiting)
            waiting.sort(key=lambda request: 1 if request in late else -min(request.held, request.num_known - 1))
        elif self._keeps_warm:
            self._touch(waiting)

    def _match(self, waiting: list[RadixRequest]) -> set[RadixRequest]:
        """Look up all requests, and return those that would hit more after an earlier waiting request is computed."""
        before = PageTree()
        late = set()
        for request in waiting:
            key = request.key(request.num_known)
            request.start(*self._memory.tree.match(request.scope, key))
            if request.held <= SHORT_MATCH:
                node, shared = before.match(request.scope, key)
                if shared >= SHARED_WITH_WAITING:
                    late.add(request)
                else:
                    before.extend(node, request.scope, key, shared)
        return late

    def _touch(self, waiting: list[RadixRequest]) -> None:
        """Now and then use the prefixes of the first requests, the first one last: it is evicted after the others."""
        if waiting and self._passes % TOUCHED_EVERY == 0:
            for request in reversed(waiting[:MOST_MATCHED]):
                self._memory.tree.match(request.scope, request.key(request.num_known))
        self._passes += bool(waiting)


def _by_weight(root: PageNode, waiting: list[RadixRequest]) -> list[RadixRequest]:
    """Through the tree depth first, where the most requests end first; those of a node come after those below it."""
    ending: dict[PageNode, list[RadixRequest]] = {}
    for request in waiting:
        ending.setdefault(request.node, []).append(request)
    weights: dict[PageNode, int] = {}
    for node in ending:  # only nodes above an ending have a weight
        above: PageNode | None = node
        while above is not None:
            weights[above] = weights.get(above, 0) + len(ending[node])
            above = above.parent
    order: list[RadixRequest] = []
    pending: list[tuple[PageNode, bool]] = [(root, False)]
    while pending:
        node, done = pending.pop()
        if done:
            order += ending.get(node, ())
            continue
        pending.append((node, True))
        heavy = [child for child in node.children.values() if child in weights]
        heavy.sort(key=lambda child: -weights[child])
        pending += [(child, False) for child in reversed(heavy)]
    return order
