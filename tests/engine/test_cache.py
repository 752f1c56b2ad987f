"""The block manager against cases worked out by hand, and against a naive one step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.hashing import extend_hashes, hash_ids
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored
from kvtool.engine.request import Request

BLOCK = 4


def manager(num_blocks: int | None, **options: object) -> BlockManager:
    config = EngineConfig(block_size=BLOCK, num_blocks=num_blocks, **options)  # type: ignore[arg-type]
    return BlockManager(config, record_events=True)


def request(ids: list[int], **options: object) -> Request:
    return Request("r", len(ids), prompt_ids=np.array(ids, np.int32), **options)  # type: ignore[arg-type]


def prefill(cache: BlockManager, ids: list[int], **options: object) -> tuple[Request, list[int]]:
    """Admit a prompt as a whole; returns the request and the blocks that it hit."""
    new = request(ids, **options)
    hits = cache.match(new)
    assert cache.allocate(new, len(ids) - len(hits) * BLOCK, hits)
    new.num_computed_tokens = len(ids)
    cache.check()
    return new, hits


def hashes(ids: list[int], salt: str | None = None) -> list[BlockHash]:
    whole = request(ids, cache_salt=salt)
    extend_hashes(whole, BLOCK)
    return whole.block_hashes


def free_queue(cache: BlockManager) -> list[int]:
    return list(cache.free_queue)


TEN = list(range(10))
TWELVE = list(range(12))


def test_a_prompt_takes_blocks_from_the_head_and_gives_them_back_tail_first() -> None:
    cache = manager(8)
    first, hits = prefill(cache, TEN)
    assert (first.block_ids, hits) == ([1, 2, 3], [])
    assert cache.take_events() == [BlockStored(tuple(hashes(TEN)), None)]
    assert free_queue(cache) == [4, 5, 6, 7]
    cache.free(first)
    # 3 is not full, so nobody can hit it: it goes first. Of the full ones the tail goes before the head.
    assert free_queue(cache) == [3, 4, 5, 6, 7, 2, 1]
    assert first.block_ids == []
    assert cache.num_filled == 2
    cache.check()


def test_a_hit_shares_the_blocks_and_stores_only_what_is_new() -> None:
    cache = manager(8)
    first, _ = prefill(cache, TEN)
    second, hits = prefill(cache, [*range(8), 50, 51, 52, 53, 54])
    assert hits == [1, 2]
    assert second.block_ids == [1, 2, 4, 5]
    assert cache.take_events()[1:] == [
        BlockStored((hashes([*range(8), 50, 51, 52, 53])[2],), hashes(TEN)[1]),
    ]
    cache.free(first)
    assert free_queue(cache) == [3, 6, 7]  # 1 and 2 are still held
    cache.free(second)
    assert free_queue(cache) == [5, 3, 6, 7, 4, 2, 1]


def test_hitting_free_blocks_takes_them_out_of_the_queue() -> None:
    cache = manager(8)
    first, _ = prefill(cache, TEN)
    cache.free(first)
    second, hits = prefill(cache, TEN)
    assert hits == [1, 2]
    assert second.block_ids == [1, 2, 3]
    assert free_queue(cache) == [4, 5, 6, 7]


def test_the_last_token_is_always_computed_so_a_whole_last_block_is_stored_twice() -> None:
    cache = manager(9)
    first, _ = prefill(cache, TWELVE)
    second, hits = prefill(cache, TWELVE)
    assert first.block_ids == [1, 2, 3]
    assert hits == [1, 2]
    assert second.block_ids == [1, 2, 4]
    last = hashes(TWELVE)[2]
    assert cache.cached[last] == 3
    assert list(cache.copies[last]) == [3, 4]
    # One token more, and the third block may be hit: its oldest copy.
    third, hits = prefill(cache, [*TWELVE, 99])
    assert hits == [1, 2, 3]
    for done in (first, second, third):
        cache.free(done)
    assert free_queue(cache) == [5, 6, 7, 8, 4, 3, 2, 1]
    # Two copies are two evictions of one hash; the younger one is left after the first of them.
    cache.take_events()
    filler, _ = prefill(cache, [100 + i for i in range(5 * BLOCK)])
    assert filler.block_ids == [5, 6, 7, 8, 4]
    assert cache.take_events()[0] == BlockRemoved(last)
    assert cache.cached[last] == 3
    assert not cache.copies
    more, _ = prefill(cache, [200, 201, 202, 203])
    assert more.block_ids == [3]
    assert cache.take_events()[0] == BlockRemoved(last)
    assert last not in cache.cached
    assert cache.num_evictions == 2


def test_eviction_begins_at_the_tail_of_the_oldest_prompt() -> None:
    cache = manager(7)
    old, _ = prefill(cache, TWELVE)
    cache.free(old)
    young, _ = prefill(cache, [50, 51, 52, 53, 54, 55, 56, 57])
    cache.free(young)
    assert free_queue(cache) == [6, 3, 2, 1, 5, 4]
    cache.take_events()
    filler, _ = prefill(cache, [90, 91, 92, 93, 94, 95, 96, 97, 98])
    chain = hashes(TWELVE)
    assert filler.block_ids == [6, 3, 2]
    assert cache.take_events()[:2] == [BlockRemoved(chain[2]), BlockRemoved(chain[1])]
    again, hits = prefill(cache, [*range(4), 77])
    assert hits == [1]
    assert again.block_ids == [1, 5]


def test_salts_keep_prefixes_apart_and_an_empty_one_is_none() -> None:
    cache = manager(None)
    assert prefill(cache, TEN)[1] == []
    assert prefill(cache, TEN, cache_salt="a")[1] == []
    assert prefill(cache, TEN, cache_salt="b")[1] == []
    assert prefill(cache, TEN, cache_salt="a")[1] == [4, 5]
    assert prefill(cache, TEN, cache_salt="")[1] == [1, 2]
    assert not set(hashes(TEN)) & set(hashes(TEN, "a"))


def test_a_request_that_skips_reading_still_writes() -> None:
    cache = manager(None)
    first, _ = prefill(cache, TEN, skip_reading_cache=True)
    second, hits = prefill(cache, TEN, skip_reading_cache=True)
    assert hits == []
    assert second.block_ids == [4, 5, 6]
    assert prefill(cache, TEN)[1] == [1, 2]
    assert cache.num_stored == 4
    assert first.num_registered_blocks == 2


def test_with_caching_off_nothing_is_stored_and_all_blocks_go_to_the_front() -> None:
    cache = manager(6, enable_prefix_caching=False)
    first, _ = prefill(cache, TEN)
    cache.free(first)
    assert free_queue(cache) == [3, 2, 1, 4, 5]
    second, hits = prefill(cache, TEN)
    assert (second.block_ids, hits) == ([3, 2, 1], [])
    assert cache.take_events() == []
    assert (cache.num_stored, cache.num_filled) == (0, 3)


def test_generated_blocks_are_stored_when_they_become_full() -> None:
    cache = manager(6)
    first, _ = prefill(cache, [1, 2, 3])
    assert cache.take_events() == []
    for token in (4, 5):
        first.append_output(token)
        assert cache.allocate(first, 1, [])
        first.num_computed_tokens += 1
    assert first.block_ids == [1, 2]
    assert cache.take_events() == [BlockStored(tuple(hashes([1, 2, 3, 4])), None)]
    assert prefill(cache, [1, 2, 3, 4, 9])[1] == [1]


def test_chunks_need_not_end_at_blocks() -> None:
    cache = manager(6)
    new = request(TWELVE)
    stored = []
    for start, count in ((0, 3), (3, 3), (6, 6)):
        assert cache.allocate(new, count, [])
        new.num_computed_tokens = start + count
        stored.append([event.block_hashes for event in cache.take_events() if isinstance(event, BlockStored)])
    chain = hashes(TWELVE)
    assert stored == [[], [(chain[0],)], [(chain[1], chain[2])]]
    assert new.block_ids == [1, 2, 3]


def test_too_few_free_blocks_change_nothing() -> None:
    cache = manager(5)
    old, _ = prefill(cache, TEN)
    cache.free(old)
    held, _ = prefill(cache, [60, 61, 62, 63, 64])
    before = (free_queue(cache), list(cache.refs), dict(cache.cached))
    new = request([*range(8), 70, 71, 72, 73, 74])
    hits = cache.match(new)
    assert hits == [1, 2]
    assert not cache.allocate(new, 5, hits)  # two new ones, and the two hit ones leave the queue
    assert (free_queue(cache), list(cache.refs), dict(cache.cached)) == before
    assert new.block_ids == []
    assert held.block_ids == [3, 4]


def test_the_watermark_and_the_gate_are_part_of_the_question() -> None:
    cache = manager(5)
    new = request(TWELVE)
    assert not cache.allocate(new, 4, [], reserve=4)
    assert not cache.allocate(new, 4, [], reserve=2, whole=True)  # one block now, three in all
    assert cache.allocate(new, 4, [], reserve=3)
    other = request(list(range(100, 116)))
    assert not cache.allocate(other, 4, [], whole=True)
    assert cache.allocate(other, 4, [])
    assert (new.block_ids, other.block_ids) == ([1], [2])


def test_reset_forgets_but_keeps_the_order_and_refuses_while_blocks_are_held() -> None:
    cache = manager(6)
    first, _ = prefill(cache, TEN)
    cache.take_events()
    assert not cache.reset()
    assert cache.take_events() == []
    cache.free(first)
    assert cache.reset()
    assert cache.take_events() == [AllBlocksCleared()]
    assert free_queue(cache) == [3, 4, 5, 2, 1]
    cache.check()
    assert prefill(cache, TEN)[1] == []
    assert cache.num_evictions == 0


def test_an_unlimited_pool_reuses_what_nobody_can_hit_and_never_evicts() -> None:
    cache = manager(None)
    for number in range(5):
        new, _ = prefill(cache, [number * 10 + i for i in range(6)])
        cache.free(new)
    # the half-filled second block is the same one each time
    assert cache.num_blocks == 1 + 5 + 1
    assert cache.num_evictions == 0
    assert prefill(cache, [0, 1, 2, 3, 9])[1] == [1]


def test_the_most_blocks_held_at_once_are_remembered() -> None:
    cache = manager(9)
    first, _ = prefill(cache, TEN)
    second, _ = prefill(cache, [*range(4), 30])
    cache.free(first)
    cache.free(second)
    prefill(cache, [70])
    assert (cache.peak_used, cache.num_used) == (4, 1)


def test_a_trace_of_hashes_hits_like_its_tokens_would() -> None:
    cache = manager(None)
    ids = [7, 8, 9]
    lengths = {"same": (12, ids), "longer": (13, [*ids, 4]), "other": (12, [7, 5, 9])}
    hits = {}
    for name, (length, blocks) in [("first", (12, ids)), *lengths.items()]:
        new = Request(name, length, prompt_hashes=hash_ids(blocks))
        found = cache.match(new)
        hits[name] = len(found)
        assert cache.allocate(new, length - len(found) * BLOCK, found)
        cache.check()
    assert hits == {"first": 0, "same": 2, "longer": 3, "other": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"block_size": 0},
        {"num_blocks": 1},
        {"max_num_batched_tokens": 0},
        {"max_num_seqs": 0},
        {"max_model_len": 0},
        {"long_prefill_token_threshold": -1},
        {"watermark": 1.0},
        {"watermark": -0.1},
        {"policy": "lifo"},
    ],
)
def test_impossible_configurations_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(EngineError):
        EngineConfig(**options)  # type: ignore[arg-type]


# A naive manager: lists, tuples of tokens for hashes. It shares no code and no data structure with the real one.

Content = tuple[str, tuple[int, ...]]


@dataclass
class Holder:
    tokens: list[int]
    salt: str
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    registered: int = 0

    def content(self, index: int) -> Content:
        return self.salt, tuple(self.tokens[: (index + 1) * BLOCK])


class Naive:
    def __init__(self, num_blocks: int | None) -> None:
        self.limited = num_blocks is not None
        self.free = list(range(1, num_blocks or 1))
        self.count = num_blocks or 1
        self.users: dict[int, int] = {}
        self.content: dict[int, Content] = {}
        self.copies: dict[Content, list[int]] = {}
        self.events: list[tuple[str, tuple[Content, ...]]] = []

    def match(self, holder: Holder) -> list[int]:
        found = []
        for index in range((len(holder.tokens) - 1) // BLOCK):
            copies = self.copies.get(holder.content(index))
            if not copies:
                break
            found.append(copies[0])
        return found

    def allocate(self, holder: Holder, count: int, hits: list[int]) -> bool:
        upto = holder.computed + len(hits) * BLOCK + count
        new = max(-(-upto // BLOCK) - len(holder.blocks) - len(hits), 0)
        if self.limited and new + sum(block in self.free for block in hits) > len(self.free):
            return False
        for block in hits:
            if block in self.free:
                self.free.remove(block)
            self.users[block] = self.users.get(block, 0) + 1
        holder.blocks += hits
        holder.registered += len(hits)
        for _ in range(new):
            holder.blocks.append(self._fresh())
        full = min(upto, len(holder.tokens)) // BLOCK
        stored = []
        for index in range(holder.registered, full):
            content = holder.content(index)
            self.content[holder.blocks[index]] = content
            self.copies.setdefault(content, []).append(holder.blocks[index])
            stored.append(content)
        if stored:
            self.events.append(("stored", tuple(stored)))
        holder.registered = max(holder.registered, full)
        holder.computed = upto
        return True

    def _fresh(self) -> int:
        if self.limited or (self.free and self.free[0] not in self.content):
            block = self.free.pop(0)
        else:
            block = self.count
            self.count += 1
        content = self.content.pop(block, None)
        if content is not None:
            self.copies[content].remove(block)
            self.events.append(("removed", (content,)))
        self.users[block] = 1
        return block

    def release(self, holder: Holder) -> None:
        front = []
        for block in reversed(holder.blocks):
            self.users[block] -= 1
            if not self.users[block]:
                if block in self.content:
                    self.free.append(block)
                else:
                    front.append(block)
        self.free = front + self.free
        holder.blocks = []

    def reset(self) -> bool:
        if any(self.users.values()):
            return False
        self.content.clear()
        self.copies.clear()
        self.events.append(("cleared", ()))
        return True


Pair = tuple[Request, Holder]
beginnings = st.sampled_from([[0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1], [0] * 9, [2] * 5, [0] * 12])


class AgainstNaive(RuleBasedStateMachine):
    """Both managers go through the same admissions, chunks, outputs, frees and resets."""

    live: Bundle[Pair] = Bundle("live")

    @initialize(num_blocks=st.none() | st.integers(3, 12))
    def begin(self, num_blocks: int | None) -> None:
        self.real = manager(num_blocks)
        self.naive = Naive(num_blocks)
        self.contents: dict[BlockHash, Content] = {}
        self.known: list[Pair] = []

    def _name(self, request: Request, holder: Holder) -> None:
        extend_hashes(request, BLOCK)
        for index, block_hash in enumerate(request.block_hashes):
            assert self.contents.setdefault(block_hash, holder.content(index)) == holder.content(index)

    @rule(target=live, start=beginnings, end=st.lists(st.integers(0, 1), max_size=5), salt=st.sampled_from(["", "s"]))
    def arrive(self, start: list[int], end: list[int], salt: str) -> Pair:
        ids = [*start, *end]
        new, holder = request(ids, cache_salt=salt or None), Holder(list(ids), salt)
        self._name(new, holder)
        return new, holder

    @rule(pair=live, chunk=st.integers(1, 9))
    def compute(self, pair: Pair, chunk: int) -> None:
        new, holder = pair
        hits = self.real.match(new) if not new.num_computed_tokens else []
        assert hits == (self.naive.match(holder) if not holder.computed else [])
        left = new.num_tokens - new.num_computed_tokens - len(hits) * BLOCK
        count = min(chunk, left)
        if not count:
            return
        fits = self.real.allocate(new, count, hits)
        assert fits == self.naive.allocate(holder, count, hits)
        if fits:
            new.num_computed_tokens += len(hits) * BLOCK + count

    @rule(pair=live, token=st.integers(0, 1))
    def sample(self, pair: Pair, token: int) -> None:
        new, holder = pair
        if new.num_computed_tokens == new.num_tokens:
            new.append_output(token)
            holder.tokens.append(token)
            self._name(new, holder)

    @rule(pair=live)
    def preempt(self, pair: Pair) -> None:
        self._release(pair)

    @rule(pair=consumes(live))
    def finish(self, pair: Pair) -> None:
        self._release(pair)

    def _release(self, pair: Pair) -> None:
        new, holder = pair
        self.real.free(new)
        self.naive.release(holder)
        new.num_computed_tokens = holder.computed = holder.registered = 0

    @rule()
    def reset(self) -> None:
        assert self.real.reset() == self.naive.reset()

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "real"):
            return
        self.real.check()
        assert list(self.real.free_queue) == self.naive.free
        held = {block: refs for block, refs in self.naive.users.items() if refs}
        assert {block: refs for block, refs in enumerate(self.real.refs) if refs} == held
        events = []
        for event in self.real.take_events():
            match event:
                case BlockStored(stored, _):
                    events.append(("stored", tuple(self.contents[block] for block in stored)))
                case BlockRemoved(removed):
                    events.append(("removed", (self.contents[removed],)))
                case AllBlocksCleared():
                    events.append(("cleared", ()))
        assert events == self.naive.events
        self.naive.events.clear()


TestAgainstNaive = AgainstNaive.TestCase
