"""Many prompts compared: the blocks that each pair shares, and the tree of their common beginnings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kvtool.accounting.prefix_tree import RadixTree
from kvtool.diff.prompts import SCHEMA, Difference, Reuse, first_difference, kind_json, spot_json
from kvtool.diff.sides import Rendered, named_changes, named_difference
from kvtool.text.align import common_prefix
from kvtool.text.tokens.prompt import Ids

MOST_IN_MATRIX = 12
_MOST_NAMED = 64
"""Branch points whose difference is named: each takes a comparison of two whole texts."""


@dataclass(slots=True)
class Branch:
    """A beginning of `tokens` tokens that the prompts `members` have in common, and how they go on.

    `ends` are the members that end here. `difference` is that of the first two ways on, which the prompts `between` take; None
    where there is only one way, or more branch points than are named.
    """

    tokens: int
    ends: list[int] = field(default_factory=list)
    children: list[Branch] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    between: tuple[int, int] | None = None
    difference: Difference | None = None

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def walk(self) -> Iterator[Branch]:
        """This and every branch below it, the shallow ones first."""
        queue = deque([self])
        while queue:
            branch = queue.popleft()
            yield branch
            queue.extend(branch.children)


@dataclass(frozen=True, slots=True)
class ManyDiff:
    """The comparison of more than two prompts as data.

    `matrix[i][j]` is what prompt i takes from a cache that holds prompt j alone, in blocks; None for more than 12 prompts.
    `reusable` counts the tokens of all prompts that are in the cache when they come in the given order and nothing is evicted.
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]
    block_size: int
    tokenizer: str
    matrix: tuple[tuple[int, ...], ...] | None
    trie: Branch = field(repr=False)
    reusable: int
    equal: bool
    """Whether all prompts are the same."""

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    def to_json(self) -> dict[str, object]:
        """Plain data without any prompt text; the trie as a list in which children are named by their places."""
        branches = list(self.trie.walk())
        place = {id(branch): at for at, branch in enumerate(branches)}
        return {
            "schema": SCHEMA,
            "tokenizer": self.tokenizer,
            "block_size": self.block_size,
            "prompts": [
                {"path": name, "tokens": length, "blocks": -(-length // self.block_size)}
                for name, length in zip(self.names, self.lengths, strict=True)
            ],
            "identical": self.equal,
            "prompt_tokens": self.tokens,
            "reusable_in_order": {"tokens": self.reusable, "blocks": self.reusable // self.block_size},
            "common_tokens": self.trie.tokens,
            "shared_blocks": None if self.matrix is None else [list(row) for row in self.matrix],
            "trie": [
                {
                    "tokens": branch.tokens,
                    "blocks": branch.tokens // self.block_size,
                    "prompts": branch.members,
                    "ends": branch.ends,
                    "children": [place[id(child)] for child in branch.children],
                    "between": None if branch.between is None else list(branch.between),
                    "difference": _difference_json(branch.difference),
                }
                for branch in branches
            ],
        }


def _difference_json(difference: Difference | None) -> dict[str, object] | None:
    if difference is None:
        return None
    return {"kind": kind_json(difference.kind), "a": spot_json(difference.a), "b": spot_json(difference.b)}


def diff_many(sides: Sequence[Rendered], block_size: int, *, tokenizer: str = "") -> ManyDiff:
    """Compare prompts, at least one, by their common beginnings. Time is linear in tokens, but for the matrix (12 prompts)."""
    prompts = [side.prompt for side in sides]
    ids = [prompt.ids for prompt in prompts]
    trie = common_trie(ids)
    for branch in [branch for branch in trie.walk() if branch.between is not None][:_MOST_NAMED]:
        if branch.between is None:
            continue
        a, b = (sides[at] for at in branch.between)
        found = first_difference(a.prompt, b.prompt, block_size, (a.side.name, b.side.name), common=branch.tokens)
        if found is not None:
            branch.difference = named_difference(found, named_changes(a, b), b)
    lengths = tuple(len(one) for one in ids)
    texts = [prompt.text for prompt in prompts]
    same_ids = trie.is_leaf and len(trie.ends) == len(ids)
    return ManyDiff(
        names=tuple(side.side.name for side in sides),
        lengths=lengths,
        block_size=block_size,
        tokenizer=tokenizer,
        matrix=_matrix(ids, block_size) if len(ids) <= MOST_IN_MATRIX else None,
        trie=trie,
        reusable=_reusable(ids, block_size),
        equal=same_ids and all(text == texts[0] for text in texts),
    )


def _matrix(ids: Sequence[Ids], block_size: int) -> tuple[tuple[int, ...], ...]:
    common = [[common_prefix(a, b) for b in ids] for a in ids]
    return tuple(
        tuple(Reuse.of(shared, len(own), block_size).blocks for shared in row)
        for own, row in zip(ids, common, strict=True)
    )


def _reusable(ids: Sequence[Ids], block_size: int) -> int:
    """Tokens found in an unlimited cache when the prompts come one after another."""
    tree = RadixTree()
    found = 0
    for owner, prompt in enumerate(ids):
        match = tree.match(prompt)
        found += Reuse.of(match.length, len(prompt), block_size).tokens
        tree.insert(prompt, owner, match)
    return found


def common_trie(prompts: Sequence[Ids]) -> Branch:
    """The tree of common beginnings of at least one prompt, children in the order in which their prompts were given.

    Prompts are sorted, so that each shares most with a neighbour; one pass over the common beginnings of neighbours, with a stack
    of what is still open, makes the tree.
    """
    order = sorted(range(len(prompts)), key=lambda at: (_sort_key(prompts[at]), at))
    open_: list[Branch] = [Branch(len(prompts[order[0]]), [order[0]])]
    for before, at in pairwise(order):
        shared = common_prefix(prompts[before], prompts[at])
        last = _close(open_, shared)
        if not open_ or open_[-1].tokens < shared:
            open_.append(Branch(shared))
        if last is not None:
            open_[-1].children.append(last)
        if len(prompts[at]) == shared:
            open_[-1].ends.append(at)
        else:
            open_.append(Branch(len(prompts[at]), [at]))
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


def _close(open_: list[Branch], depth: int) -> Branch | None:
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
