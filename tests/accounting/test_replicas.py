"""Requests over several replicas: routings counted by hand, and the ladder against caches that were run for each rung."""

from __future__ import annotations

from collections import OrderedDict
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.replicas import Router, TimedLru
from kvtool.config.options.cache_options import RuleOptions, cache_rules
from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.errors import KvtoolError
from kvtool.profiler.run.run_books import RowBook
from kvtool.results.choices import Routing
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import HashedPrompt, Turn
from tests.accounting.rule_runs import BLOCK, account, numbers, turn

TEN = numbers(0, 10)


def same(count: int, **options: object) -> list[list[Turn]]:
    """As many requests that share ten tokens and have three of their own."""
    return [[turn(TEN + numbers(100 * (i + 1), 3), **options)] for i in range(count)]


def test_round_robin_computes_a_prefix_on_each_replica(byte_renderer: Renderer) -> None:
    result = account(byte_renderer, CacheRules(replicas=2), *same(4))
    # Requests 0 and 2, and 1 and 3, share a replica: 8 tokens hit in each of the last two, 8 of request 1 are elsewhere.
    assert result.ledger.fates() == {
        "hit": 2 * 8,
        "scattered": 8,
        "partial_block": 3 * 2,
        "first_use": 10,
        "unique": 4 * 3,
    }
    assert (
        result.counts.filled_blocks == 2 + 4 * 1 + 2
    )  # each replica has the two shared blocks and one of each request


def test_one_replica_scatters_nothing(byte_renderer: Renderer) -> None:
    fates = account(byte_renderer, CacheRules(replicas=1), *same(4)).ledger.fates()
    assert fates == {"hit": 3 * 8, "partial_block": 3 * 2, "first_use": 10, "unique": 4 * 3}


def test_sticky_keeps_sessions_together(byte_renderer: Renderer) -> None:
    """Two sessions of three turns, in turn: with round-robin over two, then three replicas, and with sticky routing."""
    talks = {
        name: [numbers(start, 8 * (i + 1) + 1) for i in range(3)]
        for name, start in (("a", 0), ("b", 1000), ("c", 2000))
    }
    turns = [[turn(talks[name][i], session=name)] for i in range(3) for name in talks]
    expected = 3 * (8 + 16)
    sticky = account(byte_renderer, CacheRules(replicas=2, routing="sticky"), *turns)
    assert sticky.ledger.fates()["hit"] == expected
    in_turn = account(byte_renderer, CacheRules(replicas=2), *turns)
    assert in_turn.ledger.fates()["scattered"] == expected - in_turn.ledger.fates()["hit"] > 0


def test_sticky_by_tenant_where_there_is_no_session(byte_renderer: Renderer) -> None:
    result = account(byte_renderer, CacheRules(replicas=5, routing="sticky"), *same(6, salt="acme"))
    assert result.ledger.fates()["hit"] == 5 * 8
    assert "scattered" not in result.ledger.fates()


def test_prefix_aware_finds_the_replica(byte_renderer: Renderer) -> None:
    a, b = numbers(0, 8), numbers(1000, 8)
    mixed = [a, b, b, a, b, a, a]
    requests = [[turn(prefix + numbers(5000 + 10 * i, 3))] for i, prefix in enumerate(mixed)]
    fates = account(byte_renderer, CacheRules(replicas=2, routing="prefix-aware"), *requests).ledger.fates()
    assert fates["hit"] == 5 * 8
    assert "scattered" not in fates
    assert "scattered" in account(byte_renderer, CacheRules(replicas=2), *requests).ledger.fates()


def test_prefix_aware_passes_over_a_replica_that_did_most_of_the_work(byte_renderer: Renderer) -> None:
    long = [numbers(0, 8) + numbers(10_000 * (i + 1), 9_000) for i in range(8)]
    rules = CacheRules(replicas=2, routing="prefix-aware")
    result = account(byte_renderer, rules, *[[turn(ids)] for ids in long], block_size=8)
    assert 0 < result.ledger.fates()["scattered"] <= 8  # the shared block is computed twice, not eight times


def test_random_routing_is_the_same_for_the_same_seed(byte_renderer: Renderer) -> None:
    rules = CacheRules(replicas=4, routing="random")
    hits = [
        [row.hit_tokens for row in account(byte_renderer, rules, *same(12), seed=seed).book(RowBook).rows]
        for seed in (1, 1, 2, 3)
    ]
    assert hits[0] == hits[1]
    assert hits[0] != hits[2] or hits[0] != hits[3]


def test_each_replica_has_the_capacity(byte_renderer: Renderer) -> None:
    """Three blocks each: one prefix and half of another. In turn, each of two replicas sees one prefix only, or both."""
    a, b = numbers(0, 8), numbers(50, 8)
    requests = [[turn([*prefix, 900 + i])] for i, prefix in enumerate([a, b, a, b])]
    both = account(byte_renderer, CacheRules(replicas=2), *requests, num_blocks=4).ledger.fates()
    assert both["hit"] == 2 * 8
    assert "evicted" not in both
    wrong = [[turn([*prefix, 900 + i])] for i, prefix in enumerate([a, a, b, b, a, a])]
    fates = account(byte_renderer, CacheRules(replicas=2), *wrong, num_blocks=4).ledger.fates()
    assert (fates["hit"], fates["evicted"]) == (2 * 4, 2 * 4)  # of the last two, b took the tail
    assert fates["scattered"] == 2 * 8  # the second a and the second b


def test_a_trace_of_block_hashes(byte_renderer: Renderer) -> None:
    def trace(blocks: list[int], count: int) -> list[Turn]:
        return [Turn("t", hashed=HashedPrompt(blocks, count, BLOCK), output_tokens=1)]

    requests = [trace([1, 2, 3], 12), trace([1, 2, 4], 12), trace([1, 2, 3], 12)]
    assert account(byte_renderer, CacheRules(replicas=2), *requests).ledger.fates() == {
        "hit": 8,
        "scattered": 8,
        "last_token": 4,
        "first_use": 12,
        "unique": 4,
    }
    whole = account(byte_renderer, CacheRules(replicas=2), *requests, trace_rules=True)
    assert whole.ledger.fates() == {"hit": 12, "scattered": 8, "first_use": 12, "unique": 4}


def lru_hits(
    blocks: list[tuple[int, ...]], cache: OrderedDict[tuple[int, ...], None], capacity: int | None, most: int
) -> int:
    """A cache as simple as it can be: blocks are named by all tokens up to their end."""
    hits = 0
    while hits < min(most, len(blocks)) and blocks[hits] in cache:
        hits += 1
    for block in reversed(blocks):
        cache.pop(block, None)
        cache[block] = None
    while capacity is not None and len(cache) > capacity:
        cache.popitem(last=False)
    return hits


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=20), min_size=1, max_size=10),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_every_rung_is_a_rerun(
    byte_renderer: Renderer, prompts: list[list[int]], replicas: int, capacity: int | None
) -> None:
    """Round-robin: hits with the capacity, without one, and on one replica, each from caches of its own; rules of traces."""
    size = 2
    limited: list[OrderedDict[tuple[int, ...], None]] = [OrderedDict() for _ in range(replicas)]
    endless: list[OrderedDict[tuple[int, ...], None]] = [OrderedDict() for _ in range(replicas)]
    single: OrderedDict[tuple[int, ...], None] = OrderedDict()
    expected = [0, 0, 0]
    for number, ids in enumerate(prompts):
        blocks = [tuple(ids[:stop]) for stop in range(size, len(ids) + 1, size)]
        most, at = len(blocks), number % replicas
        expected[0] += size * lru_hits(blocks, limited[at], capacity, most)
        expected[1] += size * lru_hits(blocks, endless[at], None, most)
        expected[2] += size * lru_hits(blocks, single, None, most)
    result = account(
        byte_renderer,
        CacheRules(replicas=replicas),
        *[[turn(ids)] for ids in prompts],
        num_blocks=None if capacity is None else capacity + 1,
        block_size=size,
        trace_rules=True,
    )
    fates = result.ledger.fates()
    evicted, scattered = fates.get("evicted", 0), fates.get("scattered", 0)
    assert fates["hit"] == expected[0]
    assert fates["hit"] + evicted == expected[1]
    assert fates["hit"] + evicted + scattered == expected[2]
    if replicas == 1:
        assert "scattered" not in fates
    if capacity is None:
        assert "evicted" not in fates


def test_the_list_evicts_tails_first() -> None:
    cache = TimedLru(3, None)
    blocks = [bytes([i]) for i in range(6)]
    cache.store(blocks[:3], 0.0)  # type: ignore[arg-type]
    cache.store([blocks[5]], 1.0)  # type: ignore[list-item]
    assert cache.find(blocks[:3], 1.0) == 2  # type: ignore[arg-type]
    assert (len(cache), cache.num_evictions) == (3, 1)


def test_what_does_not_go_together() -> None:
    for options, message in [
        (RuleOptions(routing="sticky"), "there is one"),
        (RuleOptions(replicas=2, routing="nearest"), "unknown routing"),
        (RuleOptions(replicas=2, concurrency=True), "one at a time"),
        (RuleOptions(replicas=2, audit=True), "--audit"),
        (RuleOptions(replicas=2, events=True), "--events"),
    ]:
        with pytest.raises(KvtoolError, match=message) as caught:
            cache_rules(options)
        assert caught.value.hint


def test_no_rules_where_none_were_asked_for() -> None:
    assert cache_rules(RuleOptions()) is None
    assert cache_rules(RuleOptions(replicas=1)) is None
    assert cache_rules(RuleOptions(replicas=3)) == CacheRules(replicas=3)
    routing: Routing = "prefix-aware"
    assert cache_rules(RuleOptions(replicas=3, routing=routing)) == CacheRules(3, routing)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 7, 7, 9, 40_000, 90_000])), min_size=1, max_size=6),
)
def test_prefix_aware_takes_most_of_the_prompt_then_the_least_load_then_the_first(
    replicas: list[tuple[int, int]],
) -> None:
    """Each replica holds some blocks of the prompt and has computed some tokens; what it chooses is the best of those that fit."""
    prompt = [BlockHash(bytes([number])) for number in range(4)]
    caches = [TimedLru(None, None) for _ in replicas]
    for cache, (held, _) in zip(caches, replicas, strict=True):
        cache.store(prompt[:held])
    router = Router("prefix-aware", len(replicas), 0)
    router.computed = [computed for _, computed in replicas]
    least = min(router.computed)
    fit = [at for at, computed in enumerate(router.computed) if computed <= 1.5 * least + 32_768]
    most = [at for at in fit if replicas[at][0] == max(replicas[other][0] for other in fit)]
    idlest = [at for at in most if router.computed[at] == min(router.computed[other] for other in most)]
    job = JobMaker(Renderer(unused, unused), seed=0).make(Turn("t", hashed=HashedPrompt([1], BLOCK, BLOCK)))
    assert router.choose(job, caches, prompt, 0.0) == idlest[0]


def unused(*_given: object) -> NoReturn:
    raise AssertionError("a trace has no text")
