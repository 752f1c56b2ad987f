"""The hit rate by capacity: what an LRU list of blocks hits, and at its right end what the ledger calls reachable."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.block_lru import BlockLru
from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.accounting.views.reuse import MOST_POINTS, ReuseBook
from kvtool.accounting.views.stack_distances import StackDistances
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.choices import Rules
from kvtool.results.views import Reuse
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.view_runs import BLOCK, hashed, traces, turn, watched, workloads

Blocks = tuple[list[Hashable], int, int]
"""The blocks that a request touches, how many it asks for, and its tokens."""


def blocks_of(turn: Turn, rules: Rules) -> Blocks:
    """By what stands before them and in them."""
    if turn.hashed is not None:
        names, count = turn.hashed.hash_ids, turn.hashed.num_tokens
        chain: list[Hashable] = [tuple(names[: at + 1]) for at in range(len(names))]
        return (
            (chain, len(chain), count)
            if rules == "block-lru"
            else (chain[: count // BLOCK], (count - 1) // BLOCK, count)
        )
    assert turn.token_ids is not None
    assert turn.output_ids is not None
    ids, answer = turn.token_ids.tolist(), turn.output_ids.tolist()[:-1]
    whole = ids if rules == "block-lru" else ids + answer
    chain = [(turn.salt, *whole[: at * BLOCK]) for at in range(1, len(whole) // BLOCK + 1)]
    return chain, len(ids) // BLOCK if rules == "block-lru" else (len(ids) - 1) // BLOCK, len(ids)


def list_hits(requests: Sequence[Blocks], capacity: int | None) -> int:
    """Tokens that an LRU list of blocks hits."""
    lru, hit = BlockLru(capacity), 0
    for blocks, asked, count in requests:
        hit += min(lru.find(blocks[:asked]) * BLOCK, count)
        lru.store(blocks)
    return hit


def assert_right(reuse: Reuse | None, turns: Sequence[Turn], rules: Rules, result: RunResult) -> None:
    requests = [blocks_of(each, rules) for each in turns]
    asked = sum(count for _, count, _ in requests)
    if not asked:
        assert reuse is None
        return
    assert reuse is not None
    total = sum(count for _, _, count in requests)
    assert reuse.sampled == 1
    assert reuse.uses + reuse.first_uses == asked
    assert sum(each.uses for each in reuse.bins) == reuse.uses
    for point in reuse.curve:
        assert point.hit_rate == list_hits(requests, point.blocks) / total
    last = reuse.curve[-1]
    assert last.hit_rate == list_hits(requests, None) / total == TokenTotals.of(result.ledger.totals()).reachable_rate
    assert last.blocks == 1 or list_hits(requests, last.blocks - 1) < list_hits(requests, None)
    assert len(reuse.curve) <= MOST_POINTS
    assert all(a.blocks < b.blocks and a.hit_rate <= b.hit_rate for a, b in pairwise(reuse.curve))
    assert [(each.least, each.most) for each in reuse.bins] == [
        (0, 0) if not at else (1 << at - 1, (1 << at) - 1) for at in range(len(reuse.bins))
    ]


@given(turns=workloads)
def test_against_a_list_of_each_capacity(byte_renderer: Renderer, turns: list[Turn]) -> None:
    result, views = watched(byte_renderer, turns)
    assert_right(views.reuse, turns, "vllm", result)
    total = TokenTotals.of(result.ledger.totals())
    assert views.reuse is None or views.reuse.curve[-1].hit_rate == total.hit_rate  # one at a time, without a limit


@given(turns=workloads)
def test_with_the_rules_of_trace_studies(byte_renderer: Renderer, turns: list[Turn]) -> None:
    result, views = watched(byte_renderer, turns, rules="block-lru")
    assert_right(views.reuse, turns, "block-lru", result)


@given(turns=traces(), rules=st.sampled_from(["vllm", "block-lru"]))
def test_traces_of_block_hashes(byte_renderer: Renderer, turns: list[Turn], rules: Rules) -> None:
    result, views = watched(byte_renderer, turns, rules=rules)
    assert_right(views.reuse, turns, rules, result)


@given(turns=workloads, capacity=st.integers(8, 20))
def test_requests_side_by_side_in_a_small_cache(byte_renderer: Renderer, turns: list[Turn], capacity: int) -> None:
    """The list does not know who runs when: it is what an unlimited cache could have hit, in the order of submission."""
    result, views = watched(byte_renderer, turns, concurrency=3, num_blocks=capacity)
    assert_right(views.reuse, turns, "vllm", result)


def test_counted_by_hand(byte_renderer: Renderer) -> None:
    """Nine tokens: two blocks are asked for. The second time four other blocks have come between; the third time none."""
    first, second = list(range(9)), list(range(100, 116))
    reuse = watched(byte_renderer, [turn(first), turn(second), turn(first), turn(first)])[1].reuse
    assert reuse is not None
    assert (reuse.uses, reuse.first_uses) == (4, 2 + 3)  # of 16 tokens only three blocks are asked for
    assert {each.least: each.uses for each in reuse.bins} == {0: 1, 1: 1, 2: 0, 4: 2}
    assert {point.blocks: point.hit_rate for point in reuse.curve} == {
        1: 4 / 43,
        2: 8 / 43,
        3: 8 / 43,
        4: 8 / 43,
        5: 12 / 43,
        6: 16 / 43,
    }


def test_the_block_of_the_last_token_is_kept_though_nobody_asks_for_it(byte_renderer: Renderer) -> None:
    """Eight tokens: the second block is computed again, but a longer prompt finds it."""
    reuse = watched(byte_renderer, [turn(range(8)), turn(range(8)), turn(range(9))])[1].reuse
    assert reuse is not None
    assert (reuse.uses, reuse.first_uses) == (1 + 2, 1)
    assert reuse.curve[-1].hit_rate == (4 + 8) / 25


def test_an_answer_is_found_by_the_next_turn(byte_renderer: Renderer) -> None:
    """Six tokens and an answer of seven, six of which are computed, fill three blocks."""
    history = [*range(6), *range(50, 56)]
    reuse = watched(byte_renderer, [turn(range(6), [*range(50, 57)]), turn([*history, 56, 57])])[1].reuse
    assert reuse is not None
    assert (reuse.uses, reuse.curve[-1].hit_rate) == (3, 12 / 20)


def test_a_partial_last_block_counts_with_its_tokens(byte_renderer: Renderer) -> None:
    """Two whole blocks and one of a token, twice: with the rules of trace studies all of it hits, the part block last."""
    reuse = watched(byte_renderer, [hashed([1, 2, 3], 9), hashed([1, 2, 3], 9)], rules="block-lru")[1].reuse
    assert reuse is not None
    assert {point.blocks: point.hit_rate for point in reuse.curve} == {1: 4 / 18, 2: 8 / 18, 3: 9 / 18}
    assert (reuse.uses, reuse.first_uses) == (3, 3)


def test_nothing_is_asked_for(byte_renderer: Renderer) -> None:
    assert watched(byte_renderer, [turn([1, 2, 3])])[1].reuse is None
    reuse = watched(byte_renderer, [turn(range(20))])[1].reuse
    assert reuse is not None
    assert (reuse.uses, reuse.first_uses, reuse.bins) == (0, 4, [])
    assert [(point.blocks, point.hit_rate) for point in reuse.curve] == [(1, 0.0)]


@pytest.mark.parametrize("rules", ["vllm", "block-lru"])
def test_a_sample_ends_where_all_blocks_end(byte_renderer: Renderer, rules: Rules) -> None:
    """Groups of ten blocks that return after 20 others each: with 64 blocks followed, the rate falls twice."""
    turns = [
        hashed(range(100 * (at % 30), 100 * (at % 30) + 10), 10 * BLOCK - at % 3 if rules == "block-lru" else 40)
        for at in range(150)
    ]
    whole = rules == "block-lru"
    book = ReuseBook(BLOCK, whole_prompt_may_hit=whole, distances=StackDistances(64))
    maker = JobMaker(byte_renderer, seed=0)
    requests = [blocks_of(each, rules) for each in turns]
    lru, reachable = BlockLru(None), 0
    for each, (blocks, asked, count) in zip(turns, requests, strict=True):
        hit = min(lru.find(blocks[:asked]) * BLOCK, count)
        lru.store(blocks)
        reachable += hit
        book.add(maker.make(each), hit)
    reuse = book.reuse()
    assert reuse is not None
    total = sum(count for _, _, count in requests)
    assert 0 < reuse.sampled <= 0.25
    assert reuse.curve[-1].hit_rate == reachable / total
    assert sum(each.uses for each in reuse.bins) == reuse.uses == sum(asked for _, asked, _ in requests[30:])
    assert all(a.hit_rate <= b.hit_rate for a, b in pairwise(reuse.curve))
