"""Many prompts compared: the blocks that each pair shares, and the tree of their common beginnings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kvtool.accounting.prefix_tree import RadixTree
from kvtool.diff.prompts import first_difference, reusable
from kvtool.diff.sides import Rendered, judged, pair_causes, with_tool_places
from kvtool.results.documents.diff import Branch, BranchDifference, ManyDiff, SideBlocks
from kvtool.results.documents.parts import Blocks
from kvtool.text.align import common_prefix
from kvtool.text.tokens.prompt import Ids
from kvtool.workload.render import Renderer

MOST_IN_MATRIX = 12
_MOST_NAMED = 64
"""Branch points whose difference is named: each takes a comparison of two whole texts."""


@dataclass(slots=True)
class Beginning:
    """A beginning of `tokens` tokens that the prompts `members` have in common, and how they go on; `ends` end here.

    `between` are two prompts that take the first two ways on; None where there is only one way.
    """

    tokens: int
    ends: list[int] = field(default_factory=list)
    children: list[Beginning] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    between: tuple[int, int] | None = None

    def walk(self) -> Iterator[Beginning]:
        """Yield this beginning and all below it, the shallow ones first."""
        queue = deque([self])
        while queue:
            beginning = queue.popleft()
            yield beginning
            queue.extend(beginning.children)


def diff_many(sides: Sequence[Rendered], renderer: Renderer, block_size: int) -> ManyDiff:
    """Compare prompts, at least one, by their common beginnings. Time is linear in tokens, but for the matrix (12 prompts)."""
    prompts = [side.prompt for side in sides]
    ids = [prompt.ids for prompt in prompts]
    beginnings = list(common_trie(ids).walk())
    found = _reusable(ids, block_size)
    texts = [prompt.text for prompt in prompts]
    same_ids = len(beginnings[0].ends) == len(ids)
    return ManyDiff(
        schema="kvtool.diff/1",
        tokenizer=renderer.tokenizer.name,
        block_size=block_size,
        prompts=[
            SideBlocks(path=side.side.name, tokens=len(own), blocks=-(-len(own) // block_size))
            for side, own in zip(sides, ids, strict=True)
        ],
        identical=same_ids and all(text == texts[0] for text in texts),
        prompt_tokens=sum(map(len, ids)),
        reusable_in_order=Blocks(tokens=found, blocks=found // block_size),
        common_tokens=beginnings[0].tokens,
        shared_blocks=_matrix(ids, block_size) if len(ids) <= MOST_IN_MATRIX else None,
        trie=_branches(beginnings, sides, renderer, block_size),
    )


def _branches(
    beginnings: Sequence[Beginning], sides: Sequence[Rendered], renderer: Renderer, block_size: int
) -> list[Branch]:
    """Return the tree as a list in which children are named by their places; the first branch points with what differs there."""
    place = {id(beginning): at for at, beginning in enumerate(beginnings)}
    named = [beginning for beginning in beginnings if beginning.between is not None][:_MOST_NAMED]
    differences = {id(beginning): _difference(beginning, sides, renderer, block_size) for beginning in named}
    return [
        Branch(
            tokens=beginning.tokens,
            blocks=beginning.tokens // block_size,
            prompts=beginning.members,
            ends=beginning.ends,
            children=[place[id(child)] for child in beginning.children],
            between=None if beginning.between is None else list(beginning.between),
            difference=differences.get(id(beginning)),
        )
        for beginning in beginnings
    ]


def _difference(
    beginning: Beginning, sides: Sequence[Rendered], renderer: Renderer, block_size: int
) -> BranchDifference | None:
    """Return the difference between the prompts of the first two branches."""
    if beginning.between is None:
        return None
    a, b = (sides[at] for at in beginning.between)
    found = first_difference(a.prompt, b.prompt, block_size, (a.side.name, b.side.name), common=beginning.tokens)
    if found is None:
        return None
    return BranchDifference.taken_from(judged(with_tool_places(found, a, b), pair_causes(a, b, renderer)))


def _matrix(ids: Sequence[Ids], block_size: int) -> list[list[int]]:
    """Return the blocks that each prompt takes from a cache with one other prompt alone."""
    return [[reusable(common_prefix(own, other), len(own), block_size).blocks for other in ids] for own in ids]


def _reusable(ids: Sequence[Ids], block_size: int) -> int:
    """Tokens found in an unlimited cache when the prompts come one after another."""
    tree = RadixTree()
    found = 0
    for owner, prompt in enumerate(ids):
        match = tree.match(prompt)
        found += reusable(match.length, len(prompt), block_size).tokens
        tree.insert(prompt, owner, match)
    return found


def common_trie(prompts: Sequence[Ids]) -> Beginning:
    """Return the tree of common beginnings of at least one prompt, children in the order in which their prompts were given.

    Prompts are sorted, so that each shares most with a neighbour; one pass over the common beginnings of neighbours, with a stack
    of what is still open, makes the tree.
    """
    order = sorted(range(len(prompts)), key=lambda at: (_sort_key(prompts[at]), at))
    open_: list[Beginning] = [Beginning(len(prompts[order[0]]), [order[0]])]
    for before, at in pairwise(order):
        shared = common_prefix(prompts[before], prompts[at])
        last = _close(open_, shared)
        if not open_ or open_[-1].tokens < shared:
            open_.append(Beginning(shared))
        if last is not None:
            open_[-1].children.append(last)
        if len(prompts[at]) == shared:
            open_[-1].ends.append(at)
        else:
            open_.append(Beginning(len(prompts[at]), [at]))
    root = _close(open_, -1)
    if root is None:
        raise AssertionError("a prompt was opened and not closed")
    for branch in reversed(list(root.walk())):  # the deep ones first
        branch.members = sorted(branch.ends + [one for child in branch.children for one in child.members])
        branch.children.sort(key=lambda child: child.members[0])
        if len(branch.children) > 1:
            first, second = branch.children[:2]
            branch.between = first.members[0], second.members[0]
    return root


def _close(open_: list[Beginning], depth: int) -> Beginning | None:
    """Take the branches deeper than `depth` off the stack, each below the one before it; the uppermost of them."""
    last = None
    while open_ and open_[-1].tokens > depth:
        branch = open_.pop()
        if last is not None:
            branch.children.append(last)
        last = branch
    return last


def _sort_key(ids: Ids) -> bytes:
    return np.ascontiguousarray(ids, dtype=">i4").tobytes()
