"""A replica with tiers: who waits for a load, what it then hits, and when tiers are nothing but a larger cache."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.engine.config import EngineConfig
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.fleet.tier_plan import TierPlan
from kvtool.engine.fleet.tier_rules import TIER_RULES
from kvtool.engine.fleet.tiered_replica import TieredReplica
from tests.engine.fleet.made_requests import MODEL, SIZE, bursts, paths, request, serve

CONFIG = EngineConfig(block_size=SIZE, num_blocks=13)


def tiered(requests: list[FleetRequest], plan: TierPlan, config: EngineConfig = CONFIG) -> FleetLedger:
    ledger = FleetLedger(len(requests))
    serve(TieredReplica(0, config, MODEL, ledger, plan), requests)
    for each in requests:
        parts = ledger.hit_blocks[each.number] * SIZE + ledger.loaded_tokens[each.number]
        assert parts + ledger.computed_tokens[each.number] == each.prompt_tokens
    return ledger


def plain(requests: list[FleetRequest], config: EngineConfig = CONFIG) -> FleetLedger:
    ledger = FleetLedger(len(requests))
    serve(Replica(0, config, MODEL, ledger), requests)
    return ledger


FIRST, OTHER = [0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
"""5 and 11 blocks: together more than the 12 of the GPU."""


def test_what_the_gpu_lost_is_loaded_and_the_request_waits_for_it() -> None:
    requests = [request(0, FIRST), request(1, OTHER, arrival=1.0), request(2, FIRST, arrival=2.0)]
    plan = TierPlan(block_bytes=1000.0, host_blocks=100, host_bandwidth=8000.0, host_latency=0.25)
    found = tiered(requests, plan)
    # One more block than is free was taken for the second request, and the last of the first one went for each.
    assert found.hit_blocks[2] == 0
    assert found.loaded_tokens == [0, 0, 5 * SIZE]
    assert found.computed_tokens[2] == 1
    alone = MODEL.prefill_seconds(21, 20, 8192)
    assert found.first_token[2] == pytest.approx(2.0 + 0.25 + 5 * 1000 / 8000 + alone)


def test_others_go_on_while_one_waits_for_its_load() -> None:
    requests = [
        request(0, FIRST),
        request(1, OTHER, arrival=1.0),
        request(2, FIRST, arrival=2.0),
        request(3, [2], arrival=2.0),
        request(4, FIRST, arrival=2.0),
    ]
    plan = TierPlan(block_bytes=1000.0, host_blocks=100, host_bandwidth=5000.0)
    found = tiered(requests, plan)
    assert found.first_token[3] == pytest.approx(2.0 + MODEL.prefill_seconds(5, 0, 8192))
    # The blocks are loaded once: who needs them, too, waits for them and hits them.
    assert found.loaded_tokens[2] == 5 * SIZE
    assert found.loaded_tokens[4] == 0
    assert found.hit_blocks[4] == 5
    assert found.first_token[4] == found.first_token[2] > 3.0


def test_loads_share_the_link() -> None:
    requests = [
        request(0, [0, 0]),
        request(1, [2, 2]),
        request(2, OTHER, arrival=1.0),
        request(3, [0, 0], arrival=2.0),
        request(4, [2, 2], arrival=2.0),
    ]
    plan = TierPlan(block_bytes=1000.0, host_blocks=100, host_bandwidth=2000.0)
    found = tiered(requests, plan)
    assert found.loaded_tokens == [0, 0, 0, 8, 8]
    assert found.first_token[3] > 4.0  # 4 blocks at 2 a second


def test_slower_than_computing_is_not_loaded_where_one_asks() -> None:
    requests = [request(0, FIRST), request(1, OTHER, arrival=1.0), request(2, FIRST, arrival=2.0)]
    slow = TierPlan(block_bytes=1000.0, host_blocks=100, host_bandwidth=1.0, takes="cheaper")
    assert tiered(requests, slow).loaded_tokens == [0, 0, 0]
    fast = replace(slow, host_bandwidth=inf)
    assert tiered(requests, fast).loaded_tokens == [0, 0, 5 * SIZE]
    assert tiered(requests, replace(slow, takes="always")).loaded_tokens == [0, 0, 5 * SIZE]


def test_disk_gives_what_fell_out_of_the_host() -> None:
    requests = [request(0, FIRST), request(1, OTHER, arrival=1.0), request(2, FIRST, arrival=2.0)]
    plan = TierPlan(block_bytes=1000.0, host_blocks=11, disk_blocks=100, host_bandwidth=inf, disk_bandwidth=1000.0)
    found = tiered(requests, plan)
    assert found.loaded_tokens[2] == 5 * SIZE
    assert found.first_token[2] == pytest.approx(7.0 + MODEL.prefill_seconds(21, 20, 8192))
    assert tiered(requests, replace(plan, disk_blocks=0)).loaded_tokens[2] == 0
    assert tiered(requests, replace(plan, disk_bandwidth=0.0)).loaded_tokens[2] == 0


def test_what_routers_are_told_of_tiers() -> None:
    requests = [request(0, FIRST), request(1, OTHER, arrival=1.0)]
    replica = TieredReplica(
        0, CONFIG, MODEL, FleetLedger(3), TierPlan(block_bytes=1000.0, host_blocks=13, disk_blocks=2)
    )
    serve(replica, requests)
    assert replica.matched_below(request(2, FIRST)) == (2, 2)
    assert replica.matched_below(request(2, OTHER)) == (0, 0)


def far_apart(found: list[tuple[list[int], int]]) -> list[FleetRequest]:
    return [request(number, path, arrival=10.0 * number, tail=tail) for number, (path, tail) in enumerate(found)]


one_at_a_time = st.lists(st.tuples(paths, st.integers(0, SIZE - 1)), min_size=1, max_size=30).map(far_apart)
without_copies = st.lists(st.tuples(paths, st.integers(1, SIZE - 1)), min_size=1, max_size=30).map(far_apart)


@settings(deadline=None)
@given(without_copies, st.integers(8, 14), st.integers(0, 12), st.integers(0, 12))
def test_evicted_below_an_infinite_link_is_one_larger_cache(
    requests: list[FleetRequest], gpu: int, host: int, disk: int
) -> None:
    """But for copies: a prompt that ends with a block computes it again, a GPU keeps both, and no tier does."""
    plan = TierPlan(
        block_bytes=1000.0,
        host_blocks=host,
        disk_blocks=disk,
        host_bandwidth=inf,
        disk_bandwidth=inf,
        rules=TIER_RULES["dynamo"],
    )
    found = tiered(requests, plan, replace(CONFIG, num_blocks=gpu + 1))
    larger = plain(requests, replace(CONFIG, num_blocks=gpu + host + disk + 1))
    assert found.computed_tokens == larger.computed_tokens
    assert found.first_token == pytest.approx(larger.first_token)


@given(one_at_a_time, st.integers(8, 14), st.integers(0, 12), st.integers(0, 12))
def test_stored_below_an_infinite_link_is_the_cache_below(
    requests: list[FleetRequest], gpu: int, more: int, disk: int
) -> None:
    plan = TierPlan(
        block_bytes=1000.0,
        host_blocks=gpu + more,
        disk_blocks=disk,
        host_bandwidth=inf,
        disk_bandwidth=inf,
    )
    found = tiered(requests, plan, replace(CONFIG, num_blocks=gpu + 1))
    blocks: OrderedDict[int, None] = OrderedDict()
    for each in requests:
        hits = next((at for at, block in enumerate(each.blocks[: each.asked]) if block not in blocks), each.asked)
        assert found.computed_tokens[each.number] == each.prompt_tokens - min(hits, each.asked) * SIZE
        for block in reversed(each.blocks):
            blocks[block] = None
            blocks.move_to_end(block)
        while len(blocks) > gpu + more + disk:
            blocks.popitem(last=False)


plans = st.builds(
    lambda host, disk, bandwidth, latency, takes, rules: TierPlan(
        block_bytes=1000.0,
        host_blocks=host,
        disk_blocks=disk,
        host_bandwidth=bandwidth,
        disk_bandwidth=bandwidth / 2,
        host_latency=latency,
        takes=takes,
        rules=TIER_RULES[rules],
    ),
    st.sampled_from([0, 3, 40]),
    st.sampled_from([0, 5]),
    st.sampled_from([0.0, 1e3, 1e5, inf]),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from(["always", "cheaper"]),
    st.sampled_from(["vllm", "sglang", "dynamo"]),
)


@given(
    bursts((1, 2, 9)),
    plans,
    st.integers(9, 16),
    st.sampled_from([4, 16, 8192]),
    st.sampled_from([1, 2, 256]),
    st.booleans(),
)
def test_whatever_comes_all_is_served_and_every_token_has_one_origin(
    requests: list[FleetRequest], plan: TierPlan, gpu: int, budget: int, running: int, whole: bool
) -> None:
    config = replace(
        CONFIG,
        num_blocks=gpu + 1,
        max_num_batched_tokens=budget,
        max_num_seqs=running,
        scheduler_reserve_full_isl=whole,
    )
    found = tiered(requests, plan, config)
    for each in requests:
        assert each.arrival < found.first_token[each.number] <= found.finished[each.number] < inf


@given(bursts((1, 2, 9)), st.integers(9, 16), st.sampled_from([4, 8192]), st.sampled_from([(0, 1e9), (50, 0.0)]))
def test_no_blocks_or_no_bandwidth_is_no_tier(
    requests: list[FleetRequest], gpu: int, budget: int, none: tuple[int, float]
) -> None:
    config = replace(CONFIG, num_blocks=gpu + 1, max_num_batched_tokens=budget)
    host, bandwidth = none
    found = tiered(requests, TierPlan(block_bytes=1000.0, host_blocks=host, host_bandwidth=bandwidth), config)
    expected = plain(requests, config)
    assert found.hit_blocks == expected.hit_blocks
    assert found.first_token == pytest.approx(expected.first_token)
    assert found.finished == pytest.approx(expected.finished)
    assert found.preemptions == expected.preemptions
