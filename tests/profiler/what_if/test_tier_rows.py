"""Rows of tiers: what is counted without a clock, what the clock adds, and the length from which a load pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.curves.engine_hits import engine_hits
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.fleet.fleet_figures import fleet_figures
from kvtool.engine.fleet.routers.named_router import asked_router
from kvtool.engine.fleet.tier_rules import TIER_RULES
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.fleet_rows import FleetPlan, fleet_requests
from kvtool.profiler.what_if.fleet_sweeps import SplitOptions, split_order, split_rows
from kvtool.profiler.what_if.planned_change import PlannedChange
from kvtool.profiler.what_if.table_clock import TableClock, TableFleet
from kvtool.profiler.what_if.tier_rows import TierOptions, counted_tier_rows, one_at_a_time, tier_rows
from kvtool.results.documents.what_if import MissingRow, SweepRow
from kvtool.workload.block_trace import BlockTrace

MODEL = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
SIZE = 16
ROUTER = asked_router("least-loaded")


def a_trace(paths: Sequence[Sequence[int]], *, every: float = 1.0, outputs: int = 1) -> BlockTrace:
    """Prompts of whole blocks along paths in a tree, and a token more."""
    names: dict[tuple[int, ...], int] = {}
    numbers = [names.setdefault(tuple(path[: at + 1]), len(names)) for path in paths for at in range(len(path))]
    counts = np.array([len(path) for path in paths])
    return BlockTrace(
        block_size=SIZE,
        numbers=np.array(numbers, np.int64),
        starts=np.concatenate([[0], np.cumsum(counts)]),
        whole=counts,
        named=counts,
        prompt_tokens=counts * SIZE + 1,
        output_tokens=np.full(len(paths), outputs),
        arrivals=every * np.arange(len(paths), dtype=np.float64),
        sessions=np.full(len(paths), -1, np.int32),
        salts=np.full(len(paths), -1, np.int32),
    )


def a_plan(trace: BlockTrace, blocks: int | None = 8) -> FleetPlan:
    config = EngineConfig(block_size=SIZE, num_blocks=None if blocks is None else blocks + 1)
    return FleetPlan(fleet_requests(trace), config, MODEL)


def rows(trace: BlockTrace, asked: TierOptions, blocks: int | None = 8, replicas: int = 1) -> list[SweepRow]:
    return tier_rows(a_plan(trace, blocks), asked, 1000.0, ROUTER, replicas, 0)


IN_TURN = [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]] * 5
"""Two prompts of 5 blocks in turn, of which 8 blocks hold one."""


def test_the_first_row_has_no_tier_and_sizes_go_with_the_gpu() -> None:
    found = rows(a_trace(IN_TURN), TierOptions(host_bandwidths=(1e6, inf)))
    assert [row.host_blocks for row in found] == [0, 8, 8, 16, 16, 32, 32]
    assert [row.bandwidth for row in found] == [None, 1e6, None, 1e6, None, 1e6, None]
    assert {row.capacity for row in found} == {8}
    assert found[0].loaded_rate == 0
    assert found[0].break_even_tokens is None
    for row in found:
        assert row.computed_tokens is not None
        hit = row.hit_blocks + (row.loaded_rate or 0.0) * row.references
        assert hit * SIZE + row.computed_tokens == pytest.approx(10 * (5 * SIZE + 1))


def test_sizes_of_the_engines_where_nobody_says_them() -> None:
    for name, expected in (("sglang", 16), ("dynamo", 100_000)):
        assert rows(a_trace(IN_TURN), TierOptions(rules=TIER_RULES[name]))[1].host_blocks == expected  # type: ignore[index] # names of rules


def test_what_is_loaded_and_how_long_requests_wait_for_it() -> None:
    today, slow, fast = rows(a_trace(IN_TURN), TierOptions(host_blocks=[16], host_bandwidths=(5000.0, inf)))
    assert today.hit_rate < 0.6
    assert slow.loaded_rate == fast.loaded_rate
    assert fast.hit_rate + (fast.loaded_rate or 0.0) == pytest.approx(40 / 50)
    assert fast.ttft_p50 is not None
    assert today.ttft_p50 is not None
    assert slow.ttft_p50 is not None
    assert fast.ttft_p50 < today.ttft_p50 < slow.ttft_p50


def test_an_unlimited_cache_and_one_that_is_off_need_no_tier() -> None:
    with pytest.raises(KvtoolError, match="unlimited"):
        rows(a_trace(IN_TURN), TierOptions(), None)
    plan = a_plan(a_trace(IN_TURN))
    off = replace(plan, config=replace(plan.config, enable_prefix_caching=False))
    with pytest.raises(KvtoolError, match="prefix caching is off"):
        tier_rows(off, TierOptions(), 1000.0, ROUTER, 1, 0)
    with pytest.raises(KvtoolError, match="oracle is an upper bound"):
        tier_rows(plan, TierOptions(), 1000.0, asked_router("oracle"), 1, 0)


paths = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=30)


@given(paths, st.integers(6, 12), st.integers(0, 20))
def test_without_a_clock_the_gpu_hits_what_the_engine_alone_hits_and_all_is_one_larger_cache(
    asked: list[list[int]], gpu: int, host: int
) -> None:
    trace = replace(a_trace(asked), arrivals=np.full(len(asked), np.nan))
    config = EngineConfig(block_size=SIZE, num_blocks=gpu + 1)
    sizes = TierOptions(host_blocks=[host], rules=TIER_RULES["dynamo"])
    plan = FleetPlan(fleet_requests(one_at_a_time(trace)), config, MODEL)
    today, tiered = counted_tier_rows(plan, sizes, 1000.0)
    assert today.hit_blocks == engine_hits(trace, config).blocks
    larger = engine_hits(trace, replace(config, num_blocks=gpu + host + 1)).blocks
    assert tiered.hit_blocks + round((tiered.loaded_rate or 0.0) * tiered.references) == larger
    for row in (today, tiered):
        assert row.sure == "exact"
        assert row.ttft_p99 is row.bandwidth is row.break_even_tokens is None


def test_splits_of_a_fleet() -> None:
    trace = a_trace(IN_TURN, every=0.01, outputs=20)
    mixed, one, two = split_rows(a_plan(trace, 100), SplitOptions(3, 1e9), 1000.0, ROUTER, 0)
    assert (mixed.replicas, mixed.prefill_replicas, mixed.bandwidth) == (3, None, None)
    assert [(row.replicas, row.prefill_replicas, row.decode_replicas) for row in (one, two)] == [(3, 1, 2), (3, 2, 1)]
    for row in (one, two):
        assert row.bandwidth == 1e9
        assert row.transfer_p50 is not None
        assert row.transfer_p99 is not None
        assert 0 < row.transfer_p50 <= row.transfer_p99
        assert row.transfer_bytes is not None
        assert row.transfer_bytes <= 10 * (5 * SIZE + 1) * 1000
    with pytest.raises(KvtoolError, match="cannot be split"):
        list(split_rows(a_plan(trace), SplitOptions(1, 1e9), 1000.0, ROUTER, 0))


def test_a_split_over_a_link_that_nobody_knows_is_missing_from_the_table() -> None:
    trace = a_trace(IN_TURN, outputs=20)
    alone = replace(MODEL, accelerator=replace(MODEL.accelerator, link=0.0))
    plan = Plan(EngineConfig(block_size=SIZE, num_blocks=9), alone)
    missing: list[MissingRow] = []
    today = PlannedChange("today", "today", "", trace, plan)
    found = list(TableClock(TableFleet(replicas=2), seed=0).changes(today, missing))
    assert {change.kind for change in found} == {"replicas", "tier", "routing"}
    assert "--link-bandwidth" in {row.change: row.why for row in missing}["prefill/decode split"]


def test_a_router_that_is_named_alone_is_that_of_today() -> None:
    for routing, today in [
        (None, "round-robin"),
        ((), "round-robin"),
        (("sticky",), "sticky"),
        (("sticky", "random"), "round-robin"),
    ]:
        assert TableClock(TableFleet(replicas=2, routing=routing), seed=0).today == today


def test_ways_to_cut_a_fleet_are_sorted_by_what_counts() -> None:
    trace = a_trace(IN_TURN, every=0.001, outputs=20)
    run = a_plan(trace).serve(asked_router("round-robin").settings.router(0), 2)  # type: ignore[union-attr] # no bound
    mixed = replace(fleet_figures(run), ttft_p99=1.0, tpot_p99=0.1)
    calm, soon = replace(mixed, ttft_p99=3.0, tpot_p99=0.05), replace(mixed, ttft_p99=0.5, tpot_p99=0.2)
    assert split_order(calm, mixed) < split_order(
        soon, mixed
    )  # who waits longer between tokens trades one for the other
    assert split_order(replace(soon, goodput=2.0), mixed) < split_order(replace(calm, goodput=1.0), mixed)
