"""Find the part of a prompt that all groups of layers have cached."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.lookups import Lookup, SameGroups


class CommonHit(NamedTuple):
    """A table for each group, the tokens that all groups have, and the end of the longest prefix that some have.

    `junction` is 0 if no group has more than all.
    """

    tables: list[list[int]]
    tokens: int
    junction: int


def draft_groups(plan: CachePlan) -> frozenset[int]:
    """Return the groups with layers of drafts; all, where blocks are dropped for them and none is known to have them."""
    marked = frozenset(index for index, group in enumerate(plan.groups) if group.eagle)
    return marked or (frozenset(range(len(plan.groups))) if plan.eagle_drop else marked)


def same_groups(plan: CachePlan, tags: list[bytes]) -> list[SameGroups]:
    """Return the groups by their layers; groups with full attention, which are searched from the left, come first."""
    dropping = draft_groups(plan) if plan.eagle_drop else frozenset()
    members: dict[int, list[int]] = {}
    for index, group in enumerate(plan.groups):
        members.setdefault(group.spec_id, []).append(index)
    return sorted(
        (
            SameGroups(
                plan.groups[indices[0]],
                tuple(indices),
                tuple(tags[index] for index in indices),
                plan.hash_block_size,
                not dropping.isdisjoint(indices),
            )
            for indices in members.values()
        ),
        key=lambda same: not same.full,
    )


class CommonHits:
    """Find the hit that all groups have."""

    def __init__(self, plan: CachePlan, tags: list[bytes]) -> None:
        self._plan = plan
        self._sets = same_groups(plan, tags)
        self.dropping = frozenset(index for same in self._sets if same.drops for index in same.indices)
        """The groups in which the last block of a hit is dropped; all groups with equal layers follow."""
        self._align = plan.hit_alignment if len(plan.groups) > 1 else plan.groups[0].block_size
        self._one_round = len(self._sets) == 2 and self._sets[0].full

    def find(self, lookup: Lookup, hashes: list[BlockHash], most: int) -> CommonHit:
        """Return the longest hit of at most so many tokens."""
        if len(self._plan.groups) == 1:
            (same,) = self._sets
            tables, tokens = same.find(lookup, hashes, most, self._align, drop=same.drops)
            return CommonHit(tables, tokens, 0)
        return self._agree(lookup, hashes, most)

    def _agree(self, lookup: Lookup, hashes: list[BlockHash], most: int) -> CommonHit:
        """Shorten the hit to the hit of each kind of layers, until none shortens it any more."""
        found: list[list[list[int]] | None] = [None] * len(self._sets)
        lengths = [0] * len(self._sets)
        dropped: set[int] = set()
        longest = 0
        while True:
            tokens = most
            for number, same in enumerate(self._sets):
                if same.full and found[number] is not None:
                    tokens = min(tokens, lengths[number])
                    continue
                drop = same.drops and number not in dropped
                limit = tokens
                if drop and same.group.kind != "mamba":
                    limit = min(tokens + self._margin(same), len(hashes) * self._plan.hash_block_size)
                found[number], hit = same.find(lookup, hashes, limit, self._align, drop=drop)
                if drop:
                    dropped.add(number)
                elif hit < tokens:
                    dropped.clear()
                tokens = lengths[number] = hit
                longest = max(longest, hit)
            if tokens >= most:
                break
            most = tokens
            if self._one_round:
                break
        tables: list[list[int]] = [[] for _ in self._plan.groups]
        for same, columns in zip(self._sets, found, strict=True):
            for index, table in zip(same.indices, columns or (), strict=False):
                tables[index] = table[: -(-most // same.group.block_size)] if same.full else table
        return CommonHit(tables, most, longest if longest > most else 0)

    def _margin(self, same: SameGroups) -> int:
        """Return the tokens that are looked up beyond a hit because they are dropped again."""
        return self._align if self._plan.partial_hits and same.fine(self._align) else same.group.block_size
