"""Explicit caches of Gemini: their cost by hand, and the time to live that costs least against all others."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from kvtool.accounting.caches.providers import find_provider
from kvtool.accounting.caches.request_layout import PromptLayout
from kvtool.accounting.caches.timed_tree import Use
from kvtool.accounting.prices.explicit_caches import cheaper_caches
from kvtool.accounting.prices.price_row import Rates
from kvtool.workload.call import Call, Usage
from tests.conftest import some

RATES = Rates(input=Decimal("1.25"), output=Decimal(10), cache_read=Decimal("0.125"), storage_hour=Decimal("4.5"))


def asked(now: float, read: int | None, key: int = 1, tokens: int = 50_000) -> PromptLayout:
    """A question about a document."""
    usage = None if read is None else Usage(prompt=tokens + 200, cached=read)
    ends = array("q", [0, tokens, tokens + 200])
    return PromptLayout(
        scope="",
        group="g",
        name=None,
        call=Call(model="gemini-2.5-pro", usage=usage),
        rules=replace(find_provider("gemini"), minimum=4096),
        use=Use(now, None, None, 0),
        keys=array("Q", [0, key, int(now) + 1_000_000]),
        reads=ends,
        ends=ends,
        prompt=tokens + 200,
        tools=0,
        lead=1,
        messages=[1, 2],
        unmarkable=frozenset(),
        kept={},
    )


def test_a_cache_by_hand() -> None:
    """Fifty thousand tokens, forty questions a minute apart: made once, kept 40 minutes, read forty times."""
    (cache,) = cheaper_caches([asked(60.0 * number, 0) for number in range(40)], lambda _: RATES)
    assert (cache.end, cache.tokens, cache.made, cache.ttl) == ("contents[0]", 50_000, 1, 120.0)
    storage = Decimal(50_000) * Decimal("4.5") / 10**6 * (39 * 60 + 120) / 3600
    assert cache.storage == storage
    assert cache.cost == Decimal("0.0625") + 40 * (Decimal("0.00625") + Decimal("0.00025")) + storage
    assert cache.paid == 40 * 50_200 * Decimal("1.25") / 10**6
    assert cache.uses_per_hour == 4.0


def test_documents_with_caches_of_their_own_are_one_advice() -> None:
    layouts = [asked(60.0 * number, 0, key=1 + number // 10) for number in range(30)]
    (cache,) = cheaper_caches(layouts, lambda _: RATES)
    assert (cache.kept, cache.made, cache.requests) == (3, 3, 30)


@pytest.mark.parametrize("read", [50_000, None])
def test_what_is_read_anyway_or_not_reported_gets_no_cache(read: int | None) -> None:
    assert cheaper_caches([asked(60.0 * number, read) for number in range(40)], lambda _: RATES) == []


def test_a_prefix_below_the_minimum_and_a_model_without_a_price_get_no_cache() -> None:
    short = [replace(asked(60.0 * number, 0), ends=array("q", [0, 0, 0])) for number in range(40)]
    assert cheaper_caches(short, lambda _: RATES) == []
    assert (
        cheaper_caches([asked(60.0 * number, 0) for number in range(9)], lambda _: replace(RATES, storage_hour=None))
        == []
    )


def brute_force(times: Sequence[float], tokens: int, ttl: float) -> Decimal:
    """The cost of the prefix alone, minute by minute of a time to live."""
    until, made, kept = float("-inf"), 0, 0.0
    for now in times:
        made += now >= until
        kept += ttl if now >= until else now + ttl - until
        until = now + ttl
    rates = (made * RATES.input + len(times) * (RATES.cache_read or 0)) * tokens / 10**6
    return rates + tokens * (RATES.storage_hour or 0) * Decimal(str(kept)) / 3600 / 10**6


@pytest.mark.parametrize("seed", some(range(20), 5))
def test_no_time_to_live_of_full_minutes_costs_less(seed: int) -> None:
    chance = random.Random(seed)
    times = [0.0]
    for _ in range(chance.randint(3, 9)):
        times.append(times[-1] + chance.choice((20, 300, 900, 4000)) * chance.uniform(0.5, 1.5))
    found = cheaper_caches([asked(now, 0) for now in times], lambda _: RATES)
    best = min(brute_force(times, 50_000, 60.0 * minutes) for minutes in range(1, 130))
    rest = len(times) * 200 * Decimal("1.25") / 10**6
    paid = len(times) * 50_200 * Decimal("1.25") / 10**6
    cost = found[0].cost - rest if found else paid - rest
    assert cost <= min(best, paid - rest) * Decimal("1.001")
