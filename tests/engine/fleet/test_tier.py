"""Blocks below the GPU: which go, which come back, and when two levels are one cache."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.fleet.tier import Tier, TierRun, TierStack, TierWrites


def test_the_one_not_used_for_longest_goes() -> None:
    tier = Tier(2)
    assert [tier.put(block) for block in (1, 2, 1, 3)] == [None, None, None, 2]
    assert list(tier) == [1, 3]
    assert tier.take(1)
    assert not tier.take(1)
    assert list(tier) == [3]


def test_no_room_at_all() -> None:
    tier = Tier(0)
    assert tier.put(1) == 1
    assert not len(tier)


def test_what_falls_out_of_the_host_goes_to_disk_and_comes_back_with_its_next_use() -> None:
    stack = TierStack(2, 2)
    stack.used([1, 2, 3])  # 3 first, so it goes first
    assert stack.runs([1, 2, 3], 0, 3) == [TierRun("host", 0, 2), TierRun("disk", 2, 3)]
    stack.used([3])
    assert stack.runs([1, 2, 3], 0, 3) == [TierRun("host", 0, 1), TierRun("disk", 1, 2), TierRun("host", 2, 3)]
    assert stack.runs([1, 9, 3], 0, 3) == [TierRun("host", 0, 1)]
    assert stack.runs([1, 2, 3], 1, 2) == [TierRun("disk", 1, 2)]
    stack.used([4, 5])
    assert stack.num_dropped == 1
    assert stack.runs([2], 0, 1) == []
    stack.check()


def test_written_on_eviction_only_what_the_gpu_gives_up_lies_below() -> None:
    stack = TierStack(2, writes="eviction")
    stack.used([1, 2])
    assert not len(stack)
    stack.evicted(1)
    stack.evicted(2)
    stack.loaded([2])
    assert stack.runs([1, 2], 0, 2) == [TierRun("host", 0, 1)]


class PlainGpu:
    """Whole requests, one at a time, in an LRU cache of blocks that gives what it loses to a stack."""

    def __init__(self, capacity: int, stack: TierStack) -> None:
        self.capacity = capacity
        self.stack = stack
        self.blocks: OrderedDict[int, None] = OrderedDict()

    def serve(self, blocks: list[int]) -> int:
        """Leading blocks that were in the GPU or below it."""
        hits = 0
        while hits < len(blocks) and blocks[hits] in self.blocks:
            hits += 1
        runs = self.stack.runs(blocks, hits, len(blocks))
        found = runs[-1].stop if runs else hits
        self.stack.loaded(block for block in blocks if block not in self.blocks)
        for block in blocks:
            self.blocks.pop(block, None)
        while len(self.blocks) + len(blocks) > self.capacity:
            self.stack.evicted(self.blocks.popitem(last=False)[0])
        for block in reversed(blocks):
            self.blocks[block] = None
        self.stack.used(blocks)
        self.stack.check()
        return found


def chains(path: list[int]) -> list[int]:
    """Blocks of a path in a tree, each named by all before it."""
    found, name = [], 0
    for turn in path:
        name = name * 3 + turn + 1
        found.append(name)
    return found


paths = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4).map(chains), min_size=1, max_size=30)


def one_cache(capacity: int, requests: list[list[int]]) -> list[int]:
    gpu = PlainGpu(capacity, TierStack(0))
    return [gpu.serve(blocks) for blocks in requests]


@given(paths, st.integers(4, 9), st.integers(0, 9), st.integers(0, 9))
def test_what_is_evicted_kept_below_makes_one_cache_of_all_sizes(
    requests: list[list[int]], gpu: int, host: int, disk: int
) -> None:
    tiered = PlainGpu(gpu, TierStack(host, disk, writes="eviction"))
    assert [tiered.serve(blocks) for blocks in requests] == one_cache(gpu + host + disk, requests)


@given(paths, st.integers(4, 9), st.integers(0, 9), st.integers(0, 9))
def test_what_is_stored_kept_below_makes_one_cache_of_the_sizes_below(
    requests: list[list[int]], gpu: int, host: int, disk: int
) -> None:
    tiered = PlainGpu(gpu, TierStack(host, disk, writes="store"))
    assert [tiered.serve(blocks) for blocks in requests] == one_cache(max(gpu, host + disk), requests)


@pytest.mark.parametrize("writes", ["store", "eviction"])
def test_no_blocks_below_is_no_tier(writes: TierWrites) -> None:
    stack = TierStack(0, writes=writes)
    stack.used([1, 2])
    stack.evicted(3)
    assert stack.runs([1, 2, 3], 0, 3) == []
