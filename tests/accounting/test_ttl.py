"""A time to live, on the clock of arrivals: counted by hand, and against a cache that is asked at each moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.cache_rules import CacheRules, lifetime
from kvtool.config.options.cache_options import RuleOptions, cache_rules, seconds_of
from kvtool.errors import KvtoolError
from kvtool.profiler.run.run_books import RowBook
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.rule_runs import account, numbers, turn

EIGHT = numbers(0, 8)


def at(*times: float, **options: object) -> list[list[Turn]]:
    """Requests at these seconds that share eight tokens and have one of their own."""
    return [[turn([*EIGHT, 100 + i], time, **options)] for i, time in enumerate(times)]


def test_what_was_not_used_for_longer_is_gone(byte_renderer: Renderer) -> None:
    result = account(byte_renderer, CacheRules(ttl=10.0), *at(0, 10, 19, 30), timed=True)
    # At 10 exactly it is still there; at 30 it was not used for 11 seconds.
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, 8, 8, 0]
    assert result.ledger.fates() == {"hit": 16, "expired": 8, "first_use": 8, "unique": 4}


def test_use_keeps_a_prefix_alive(byte_renderer: Renderer) -> None:
    result = account(byte_renderer, CacheRules(ttl=10.0), *at(0, 6, 12, 18, 24), timed=True)
    assert result.ledger.fates()["hit"] == 4 * 8
    assert "expired" not in result.ledger.fates()


def test_requests_are_taken_as_they_arrive(byte_renderer: Renderer) -> None:
    """Written last, arriving first: it is what the others find."""
    result = account(byte_renderer, CacheRules(ttl=10.0), *at(12, 5, 0), timed=True)
    assert [(row.id, row.hit_tokens) for row in result.book(RowBook).rows] == [("r1", 0), ("r2", 8), ("r3", 8)]
    assert result.ledger.fates() == {"hit": 16, "first_use": 8, "unique": 3}


def test_a_later_turn_comes_when_the_one_before_is_answered(byte_renderer: Renderer) -> None:
    """Both turns of the conversation are before the request at second 50, although only the first one has an arrival."""
    talk = [turn([*EIGHT, 1], 0.0), turn([*EIGHT, 1, 2, 3, 4], None)]
    result = account(byte_renderer, CacheRules(ttl=60.0), talk, *at(50), timed=True)
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, 8, 8]


def test_evicted_comes_before_expired(byte_renderer: Renderer) -> None:
    """Three blocks. At 5 others have pushed out half of the prefix; at 100 nothing would have helped but a longer life."""
    other = [[turn(numbers(500, 9), 1.0)]]
    requests = [*at(0), *other, *at(5, 100)]
    result = account(byte_renderer, CacheRules(ttl=10.0), *requests, timed=True, num_blocks=4)
    fates = result.ledger.fates()
    assert (fates["hit"], fates["evicted"], fates["expired"]) == (4, 4, 8)
    endless = account(byte_renderer, CacheRules(ttl=10.0), *requests, timed=True).ledger.fates()
    assert (endless.get("evicted", 0), endless["expired"], endless["hit"]) == (0, 8, 8)


def test_all_three_rungs(byte_renderer: Renderer) -> None:
    """Two replicas in turn: 0 and 2 are on one, 1 and 3 on the other."""
    fates = account(byte_renderer, CacheRules(replicas=2, ttl=10.0), *at(0, 1, 2, 60), timed=True).ledger.fates()
    assert fates == {"hit": 8, "expired": 8, "scattered": 8, "first_use": 8, "unique": 4}


def test_a_time_to_live_needs_arrivals(byte_renderer: Renderer) -> None:
    with pytest.raises(KvtoolError, match="needs arrival times, but request 1 of g has none") as caught:
        account(byte_renderer, CacheRules(ttl=10.0), [turn(EIGHT, None)], timed=True)
    assert "arrival:" in str(caught.value.hint)


def test_flags() -> None:
    assert seconds_of("5m") == 300
    assert cache_rules(RuleOptions(ttl=90.0)) == CacheRules(ttl=90.0)
    with pytest.raises(KvtoolError, match="--ttl"):
        seconds_of("soon")
    with pytest.raises(KvtoolError, match="more than nothing"):
        cache_rules(RuleOptions(ttl=0.0))
    assert [lifetime(seconds) for seconds in (300, 3600, 90, 0.5)] == ["5 min", "1 h", "90 s", "0.5 s"]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=12), st.integers(0, 6)), min_size=1, max_size=12
    ),
    st.integers(1, 12),
)
def test_against_asking_when_each_block_was_last_used(
    byte_renderer: Renderer, requests: list[tuple[list[int], int]], ttl: int
) -> None:
    size, now = 2, 0
    used: dict[tuple[int, ...], int] = {}
    expected, lasting = [], 0
    turns = []
    for ids, pause in requests:
        now += pause
        turns.append([turn(ids, float(now))])
        blocks = [tuple(ids[:stop]) for stop in range(size, len(ids) + 1, size)]
        usable = blocks[: (len(ids) - 1) // size]
        alive = [block in used and now - used[block] <= ttl for block in usable]
        there = [block in used for block in usable]
        expected.append(size * next((i for i, found in enumerate(alive) if not found), len(alive)))
        lasting += size * next((i for i, found in enumerate(there) if not found), len(there))
        used.update(dict.fromkeys(blocks, now))
    result = account(byte_renderer, CacheRules(ttl=float(ttl)), *turns, timed=True, block_size=size)
    fates = result.ledger.fates()
    assert [row.hit_tokens for row in result.book(RowBook).rows] == expected
    assert fates["hit"] + fates.get("expired", 0) == lasting
