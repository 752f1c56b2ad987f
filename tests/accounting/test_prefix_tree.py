from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.accounting.prefix_tree import RadixTree
from kvtool.accounting.token_store import TokenStore
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account

tokens = st.integers(0, 2)
prompts = st.tuples(st.lists(tokens, min_size=1, max_size=12), st.lists(tokens, max_size=5))
workloads = st.lists(prompts, min_size=1, max_size=12)


def ids(tokens: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(tokens, np.int32)


def shared(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(workloads, st.sampled_from([0, 4, 1000]))
def test_it_knows_the_longest_prefix_of_anything_earlier(
    workload: list[tuple[list[int], list[int]]], in_memory: int
) -> None:
    tree = RadixTree(TokenStore(in_memory=in_memory))
    earlier: list[list[int]] = []
    for owner, (prompt, output) in enumerate(workload):
        match = tree.match(ids(prompt))
        tree.check()
        assert match.length == max((shared(prompt, other) for other in earlier), default=0)
        rest = tree.continuation(match, 100).tolist()
        whole = prompt[: match.length] + rest
        assert not rest or any(other[: len(whole)] == whole for other in earlier)
        assert bool(rest) == any(
            len(other) > match.length and other[: match.length] == whole[: match.length] for other in earlier
        )
        assert tree.continuation(match, 2).tolist() == rest[:2]
        tree.insert(ids(prompt + output), owner, match)
        tree.check()
        earlier.append(prompt + output)


@given(workloads)
@example([([0, 1, 2, 2], []), ([0, 1, 2, 2], []), ([0], [1, 0])])  # an answer splits what a prompt has reused
def test_every_token_belongs_to_the_first_that_brought_it(workload: list[tuple[list[int], list[int]]]) -> None:
    tree = RadixTree()
    first: dict[tuple[int, ...], int] = {}
    reused: set[tuple[int, ...]] = set()
    for owner, (prompt, output) in enumerate(workload):
        tree.insert(ids(prompt + output), owner, tree.match(ids(prompt)))
        whole = prompt + output
        reused |= {tuple(prompt[:end]) for end in range(1, len(prompt) + 1)} & first.keys()
        for end in range(1, len(whole) + 1):
            first.setdefault(tuple(whole[:end]), owner)
    found: dict[tuple[int, ...], int] = {}
    seen_again: set[tuple[int, ...]] = set()
    stack = [(tree.root, ())]
    while stack:
        node, path = stack.pop()
        assert node.start == len(path)
        for token in node.ids.tolist():
            path = (*path, token)
            found[path] = node.owner
            if node.reused:
                seen_again.add(path)
        stack += [(child, path) for child in node.children]
    assert found == first
    assert seen_again == reused
    assert sum(len(node.ids) for node in tree.nodes()) == len(first)


@given(workloads, st.integers(1, 5))
def test_one_number_gives_the_hits_of_an_unlimited_cache_of_every_block_size(
    workload: list[tuple[list[int], list[int]]], block_size: int
) -> None:
    config = EngineConfig(block_size=block_size)
    scheduler = Scheduler(config, BlockManager(config))
    tree = RadixTree()
    for owner, (prompt, output) in enumerate(workload):
        request = Request(str(owner), len(prompt), prompt_ids=ids(prompt), output_ids=[*output, 0])
        account(scheduler, request)
        match = tree.match(ids(prompt))
        tree.insert(ids(prompt + output), owner, match)
        assert request.num_cached_tokens == min(match.length, len(prompt) - 1) // block_size * block_size


@given(workloads, workloads)
def test_a_copy_grows_apart(
    before: list[tuple[list[int], list[int]]], after: list[tuple[list[int], list[int]]]
) -> None:
    tree = RadixTree()
    for owner, (prompt, output) in enumerate(before):
        tree.insert(ids(prompt + output), owner, tree.match(ids(prompt)))
    twin = tree.copy()

    def contents(of: RadixTree) -> list[tuple[int, int, bool, list[int]]]:
        return sorted((node.start, node.owner, node.reused, node.ids.tolist()) for node in of.nodes())

    twin.check()
    assert contents(twin) == contents(tree)
    untouched = contents(tree)
    for prompt, _ in after:
        assert twin.match(ids(prompt)).length == tree.copy().match(ids(prompt)).length
    for prompt, output in after:
        twin.insert(ids(prompt + output), 99, twin.match(ids(prompt)))
    twin.check()
    tree.check()
    assert contents(tree) == untouched
    for prompt, _ in before:
        other = tree.copy()
        before_copy = tree.continuation(tree.match(ids(prompt[:1])), 9).tolist()
        twin = other.copy()
        assert twin.continuation(twin.match(ids(prompt[:1])), 9).tolist() == before_copy


def test_what_came_last_is_what_continues() -> None:
    tree = RadixTree()
    for owner, tail in enumerate([[7, 7], [8, 8, 8], [7, 7, 9]]):
        prompt = ids([1, 2, *tail])
        tree.insert(prompt, owner, tree.match(prompt))
    assert tree.continuation(tree.match(ids([1, 2, 5])), 10).tolist() == [7, 7, 9]
    tree.match(ids([1, 2, 8]))
    assert tree.continuation(tree.match(ids([1, 2])), 10).tolist() == [8, 8, 8]
    assert tree.continuation(tree.match(ids([3])), 3).tolist() == [1, 2, 8]
    assert tree.continuation(tree.match(ids([1, 2, 8, 8, 8])), 10).tolist() == []
