"""The tree of all prompts: every node with the prompts that pass it, and what is left when only the heaviest are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.accounting.prefix_tree import RadixTree
from kvtool.accounting.views.tree import MOST_GROUPS, MOST_NODES, prefix_tree
from kvtool.accounting.views.tree_nodes import Known
from kvtool.results.choices import Rules
from kvtool.results.views import PrefixTree
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.view_runs import BLOCK, hashed, traces, turn, watched, workloads

Node = tuple[int, int, int, tuple[str, ...], tuple["Node", ...]]
"""Start, tokens, requests, groups and children."""
Written = tuple[str, list[Hashable]]
"""Group and tokens of a prompt."""


def reference(prompts: Sequence[Written], start: int = 0) -> tuple[Node, ...]:
    """The compressed tree, grown from the prompts that go on behind `start` tokens in common."""
    by_first: dict[Hashable, list[Written]] = {}
    for group, ids in prompts:
        if len(ids) > start:
            by_first.setdefault(ids[start], []).append((group, ids))
    nodes: list[Node] = []
    for members in by_first.values():
        stop = start + 1
        while all(
            len(ids) > stop and ids[stop] == members[0][1][stop] for _, ids in members if len(members[0][1]) > stop
        ):
            if len(members[0][1]) <= stop:
                break
            stop += 1
        groups = Counter(group for group, _ in members)
        told = tuple(sorted(groups, key=lambda name: (-groups[name], name))[:MOST_GROUPS])
        nodes.append((start, stop - start, len(members), told, reference(members, stop)))
    return tuple(sorted(nodes, key=repr))


def nested(view: PrefixTree) -> tuple[Node, ...]:
    """A view in the same form."""
    children: dict[int | None, list[int]] = {}
    for number, node in enumerate(view.nodes):
        assert node.parent is None or node.parent < number
        children.setdefault(node.parent, []).append(number)

    def below(parent: int | None) -> tuple[Node, ...]:
        found: list[Node] = []
        for number in children.get(parent, ()):
            node = view.nodes[number]
            found.append((node.start, node.tokens, node.requests, tuple(node.groups), below(number)))
        return tuple(sorted(found, key=repr))

    return below(None)


def written(turn: Turn, number: int) -> Written:
    if turn.hashed is not None:
        names: list[Hashable] = [*turn.hashed.hash_ids, ("none", number)]
        return turn.group, [(name, at) for name in names for at in range(BLOCK)][: turn.hashed.num_tokens]
    assert turn.token_ids is not None
    return turn.group, turn.token_ids.tolist()


def assert_right(view: PrefixTree | None, turns: Sequence[Turn]) -> None:
    prompts = [written(each, number) for number, each in enumerate(turns)]
    assert view is not None
    assert nested(view) == reference(prompts)
    assert view.prompt_tokens == sum(len(ids) for _, ids in prompts)
    assert view.left_out == 0


@given(turns=workloads)
@example([turn([0, 0], [1, 1, 1, 1]), turn([0, 0, 1]), turn([0, 0, 1, 1, 2])])  # prompts that end in an earlier answer
@example([turn([0, 1], group="a"), turn([0, 1], [2, 2], group="b"), turn([0, 1], group="b"), turn([0], group="c")])
def test_every_node_has_the_prompts_that_pass_it(byte_renderer: Renderer, turns: list[Turn]) -> None:
    assert_right(watched(byte_renderer, turns)[1].prefix_tree, turns)


@given(turns=workloads)
def test_with_several_requests_at_once(byte_renderer: Renderer, turns: list[Turn]) -> None:
    assert_right(watched(byte_renderer, turns, concurrency=2)[1].prefix_tree, turns)


@given(turns=traces(), rules=st.sampled_from(["vllm", "block-lru"]))
def test_traces_of_block_hashes_in_tokens(byte_renderer: Renderer, turns: list[Turn], rules: Rules) -> None:
    view = watched(byte_renderer, turns, rules=rules)[1].prefix_tree
    assert_right(view, turns)
    assert view is not None
    assert all((node.path, node.line, node.part) == ("", 0, "") for node in view.nodes)


def test_a_partial_block_that_others_fill(byte_renderer: Renderer) -> None:
    view = watched(byte_renderer, [hashed([1, 2], 6), hashed([1, 2, 3], 12)])[1].prefix_tree
    assert view is not None
    assert [(node.start, node.tokens, node.requests) for node in view.nodes] == [(0, 6, 2), (6, 6, 1)]


def grown(prompts: Sequence[Sequence[int]]) -> tuple[RadixTree, list[tuple[str, int]], Known]:
    tree = RadixTree()
    for owner, ids in enumerate(prompts):
        array = np.array(ids, np.int32)
        tree.insert(array, owner, tree.match(array))
    return tree, [("g", len(ids)) for ids in prompts], {}


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=20, unique_by=tuple),
    st.integers(1, 12),
)
def test_the_heaviest_nodes_with_their_parents(prompts: list[list[int]], most: int) -> None:
    tree, owners, known = grown(prompts)
    whole = prefix_tree({1: tree}, owners.__getitem__, known, ())
    some = prefix_tree({1: tree}, owners.__getitem__, known, (), most=most)
    assert whole is not None
    assert some is not None
    assert len(some.nodes) == min(most, len(whole.nodes))
    assert some.prompt_tokens == whole.prompt_tokens
    told = sum(node.tokens * node.requests for node in some.nodes)
    assert some.left_out == some.prompt_tokens - told
    every = [(node.start, node.tokens, node.requests) for node in whole.nodes]
    assert all((node.start, node.tokens, node.requests) in every for node in some.nodes)
    for node in some.nodes:
        if node.parent is not None:
            parent = some.nodes[node.parent]
            assert parent.start + parent.tokens == node.start
            assert parent.requests > node.requests


def test_few_of_many() -> None:
    """A thousand prompts of one token behind a front of ten; the front is the heaviest and all else is alike."""
    tree, owners, known = grown([[*range(10), 100 + number] for number in range(1_000)])
    view = prefix_tree({1: tree}, owners.__getitem__, known, ())
    assert view is not None
    assert len(view.nodes) == MOST_NODES
    first = view.nodes[0]
    assert (first.parent, first.start, first.tokens, first.requests, first.groups) == (None, 0, 10, 1_000, ["g"])
    assert {(node.parent, node.start, node.tokens, node.requests) for node in view.nodes[1:]} == {(0, 10, 1, 1)}
    assert (view.prompt_tokens, view.left_out) == (11_000, 1_000 - (MOST_NODES - 1))


def test_of_several_trees_the_one_with_most_tokens(byte_renderer: Renderer) -> None:
    turns = [turn([1, 2, 3]), hashed([7, 8], 8), turn([1, 2, 4, 5])]
    view = watched(byte_renderer, turns)[1].prefix_tree
    assert view is not None
    assert (view.prompt_tokens, view.left_out) == (15, 7)
    assert [(node.start, node.tokens, node.groups) for node in view.nodes] == [(0, 8, ["trace"])]


def test_no_prompt_no_tree() -> None:
    assert prefix_tree({}, [].__getitem__, {}, [Prompt(np.array([1], np.int32))]) is None
