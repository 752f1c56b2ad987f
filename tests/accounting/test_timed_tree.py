"""The tree of sent prompts: what it remembers of the latest sequences changes none of its answers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvtool.accounting.caches.timed_tree import TimedNode, TimedTree, Use
from kvtool.accounting.token_store import TokenStore
from tests.conftest import some


def shown(tree: TimedTree) -> list[tuple[object, ...]]:
    def of(node: TimedNode) -> tuple[object, ...]:
        kept = node.entry, node.ttl, node.ready, node.used, node.settings
        return node.start, tree.ids(node).tolist(), kept, sorted(map(of, node.children), key=repr)

    return [of(child) for child in sorted(tree.root.children, key=lambda child: child.first)]


@pytest.mark.parametrize("seed", some(range(60), 5))
def test_a_tree_that_remembers_is_the_tree_that_forgets(seed: int) -> None:
    rng = random.Random(seed)
    remembers, forgets = TimedTree(TokenStore(in_memory=8)), TimedTree(TokenStore())
    sent: list[list[int]] = [[]]
    for number in range(rng.randint(1, 60)):
        begin = rng.choice(sent[-6:])
        ids = begin[: rng.randint(0, len(begin))] if rng.random() < 0.4 else list(begin)
        ids += [rng.randrange(3) for _ in range(rng.randint(1, 12))]
        sent.append(ids)
        tokens = np.array(ids, dtype=np.int32)
        stops = {rng.randint(1, len(ids)): rng.choice([None, 300.0, 3600.0]) for _ in range(rng.randint(0, 4))}
        kept = rng.choice([None, (300.0,), (None,)])
        paths = []
        for tree in (remembers, forgets):
            forgets._walked.clear()
            paths.append([(node.start, tree.ids(node).tolist()) for node in tree.path(tokens)])
            forgets._walked.clear()
            tree.insert(tokens, stops, Use(float(number), settings=number % 3), kept)
        assert paths[0] == paths[1]
        assert shown(remembers) == shown(forgets)
