from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.block_lru import BlockLru

SHARED = Path(__file__).resolve().parents[3] / "shared"
TRACE = SHARED / "data" / "mooncake" / "conversation_trace.jsonl"
EXPECTED = SHARED / "oracle" / "traces-expected.json"


def test_tails_go_before_heads_and_all_blocks_may_hit() -> None:
    lru = BlockLru(4)
    assert lru.request(["a", "b", "c"]) == 0
    assert lru.request(["a", "b", "c"]) == 3
    assert lru.request(["x", "y"]) == 0  # five blocks: the tail of the older request goes
    assert (len(lru), lru.num_evictions) == (4, 1)
    assert lru.request(["a", "b", "c"]) == 2  # c comes back, and y, the oldest tail, goes
    assert lru.request(["x", "y"]) == 1
    assert lru.num_evictions == 3


def test_a_hit_ends_at_the_first_absent_block() -> None:
    lru = BlockLru(None)
    lru.request([1, 2, 3])
    assert lru.request([1, 9, 3]) == 1
    assert lru.request([9]) == 1
    assert (len(lru), lru.num_evictions) == (4, 0)


def test_a_request_larger_than_the_list_keeps_its_head() -> None:
    lru = BlockLru(2)
    assert lru.request([1, 2, 3, 4]) == 0
    assert lru.request([1, 2, 3, 4]) == 2
    assert len(lru) == 2


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5, unique=True), max_size=12), st.integers(1, 8))
def test_against_a_plain_list(requests: list[list[int]], capacity: int) -> None:
    lru = BlockLru(capacity)
    resident: list[int] = []  # the least recently used first
    for blocks in requests:
        hits = next((i for i, block in enumerate(blocks) if block not in resident), len(blocks))
        resident = ([block for block in resident if block not in blocks] + blocks[::-1])[-capacity:]
        assert lru.request(blocks) == hits
        assert len(lru) == len(resident)


@pytest.mark.skipif(not (TRACE.exists() and EXPECTED.exists()), reason="no Mooncake trace beside this checkout")
def test_the_conversation_trace_at_every_capacity() -> None:
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))["mooncake_conversation"]
    with TRACE.open(encoding="utf-8") as lines:
        requests = [json.loads(line)["hash_ids"] for line in lines]
    want: dict[int | None, int] = {
        int(capacity): row["prefix_hits"] for capacity, row in expected["policies"]["LRU"].items()
    }
    want[None] = expected["infinite"]["prefix_hits"]
    assert len(want) == 7
    hits = {}
    for capacity in want:
        lru = BlockLru(capacity)
        hits[capacity] = sum(lru.request(blocks) for blocks in requests)
    assert hits == want
