"""Routers that look at one thing: by hand, with equals, with nothing to tell replicas apart."""

from __future__ import annotations

from collections import Counter

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.routers.blind_routers import (
    LeastLoadedSettings,
    LongestPrefixSettings,
    RandomSettings,
    RoundRobinSettings,
)
from kvtool.engine.fleet.routers.block_hash import BlockHashSettings
from kvtool.engine.fleet.routers.request_rates import RequestRates
from kvtool.engine.fleet.routers.session_ring import HashRing, SessionRingSettings
from tests.engine.fleet.routers.made_replica import MadeReplica, chosen, made_request


def test_round_robin_goes_around() -> None:
    router = RoundRobinSettings().router(0)
    replicas = [MadeReplica(number, waiting=9 - number, match=number) for number in range(3)]
    assert [chosen(router, replicas) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_random_is_even_and_the_same_for_a_seed() -> None:
    replicas = [MadeReplica(number) for number in range(4)]
    router, again, other = RandomSettings().router(7), RandomSettings().router(7), RandomSettings().router(8)
    first = [chosen(router, replicas) for _ in range(4000)]
    assert first == [chosen(again, replicas) for _ in range(4000)]
    assert first != [chosen(other, replicas) for _ in range(4000)]
    assert all(850 < count < 1150 for count in Counter(first).values())


def test_least_loaded_counts_waiting_and_running() -> None:
    router = LeastLoadedSettings().router(0)
    assert (
        chosen(router, [MadeReplica(0, waiting=3), MadeReplica(1, waiting=1, running=1), MadeReplica(2, running=3)])
        == 1
    )
    assert (
        chosen(router, [MadeReplica(0, running=2), MadeReplica(1, waiting=2), MadeReplica(2, waiting=1, running=1)])
        == 0
    )
    assert chosen(router, [MadeReplica(0, running=2), MadeReplica(1, running=1), MadeReplica(2, waiting=1)]) == 1


def test_longest_prefix_looks_at_nothing_else() -> None:
    router = LongestPrefixSettings().router(0)
    assert chosen(router, [MadeReplica(0, 2), MadeReplica(1, 5, waiting=1000), MadeReplica(2, 5)]) == 1
    assert chosen(router, [MadeReplica(0), MadeReplica(1), MadeReplica(2)]) == 0


def test_a_block_decides_alone() -> None:
    for block in [0, 1, 5]:
        router = BlockHashSettings(block=block).router(0)
        replicas = [MadeReplica(number) for number in range(4)]
        place = {}
        for number in range(400):
            request = made_request(number, 8, first=number * 8)
            place[request.blocks[block]] = chosen(router, replicas, request)
        assert all(60 < count < 140 for count in Counter(place.values()).values())
        for number in range(400):  # other blocks around it, and load and matches that say otherwise
            request = made_request(number, 8, first=-1000)
            request.blocks[block] = number * 8 + block
            other = [MadeReplica(each, match=each, waiting=9 * each) for each in range(4)]
            assert chosen(router, other, request) == place[number * 8 + block]


def test_a_short_prompt_is_placed_by_its_last_block() -> None:
    router = BlockHashSettings(block=3).router(0)
    replicas = [MadeReplica(number) for number in range(4)]
    for number in range(50):
        long, short = made_request(number, 4, first=number), made_request(number, 2, first=number + 2)
        assert chosen(router, replicas, long) == chosen(router, replicas, short)
    assert chosen(router, replicas, made_request(blocks=0)) == 0


def test_a_session_stays_whatever_happens() -> None:
    router = SessionRingSettings().router(0)
    place = {}
    for number in range(800):
        place[number] = chosen(router, [MadeReplica(each) for each in range(4)], made_request(number, session=number))
    assert all(100 < count < 300 for count in Counter(place.values()).values())
    for number in reversed(range(800)):
        busy = [MadeReplica(each, match=9 - each, waiting=50 * each) for each in range(4)]
        assert chosen(router, busy, made_request(5000 + number, session=number), now=9e5) == place[number]
    assert router.ways == {"session": 1600, "rate": 0}


def test_a_tenant_stands_for_a_session() -> None:
    router = SessionRingSettings().router(0)
    replicas = [MadeReplica(number) for number in range(4)]
    place: dict[int, set[int]] = {}
    for number in range(80):
        request = FleetRequest(number, 0.0, [number], 1, 10, 1, salt=number % 8)
        place.setdefault(number % 8, set()).add(chosen(router, replicas, request))
    assert all(len(places) == 1 for places in place.values())
    assert len(set.union(*place.values())) > 1


def test_a_ring_of_one_more_moves_a_part_and_only_to_it() -> None:
    four, five = HashRing(range(4), 160, 0), HashRing(range(5), 160, 0)
    moved = [(four.owner(str(key)), five.owner(str(key))) for key in range(5000)]
    changed = [new for old, new in moved if old != new]
    assert set(changed) == {4}
    assert 600 < len(changed) < 1500  # a fifth, more or less


def test_a_request_of_no_session_goes_where_fewest_were_sent_lately() -> None:
    router = SessionRingSettings(window=60).router(0)
    replicas = [MadeReplica(number) for number in range(3)]
    assert [chosen(router, replicas, now=moment) for moment in (0, 1, 2)] == [0, 1, 2]  # who never had one is first
    assert chosen(router, replicas, now=3) == 0  # all had one
    assert [chosen(router, replicas, now=moment) for moment in (4, 5)] == [1, 2]
    assert chosen(router, replicas, now=61.5) == 0  # of 0 and 1 one is left in the window, of 2 two
    assert chosen(router, replicas, now=61.5) == 1
    assert router.ways == {"session": 0, "rate": 8}


def test_rates_forget_what_is_older_than_the_window() -> None:
    rates = RequestRates(10)
    replicas = [MadeReplica(0), MadeReplica(1)]
    for moment in (0, 1, 2):
        rates.sent(0, moment)
    rates.sent(1, 5)
    assert rates.lowest(replicas, 5) == 1
    assert rates.lowest(replicas, 12) == 0  # one of each is left (a request of 10 seconds ago counts), and 0 is first
    assert rates.lowest(replicas, 15.5) == 0
    rates.sent(0, 15.5)
    assert rates.lowest(replicas, 15.5) == 1
    rates = RequestRates(10)
    rates.sent(0, 3)
    rates.sent(1, 2)
    assert rates.lowest(replicas, 12) == 0  # that of just 10 seconds ago counts
    assert rates.lowest(replicas, 12.5) == 1
