"""The first line of sweeps: tiers, split fleets, routers, replicas, times to live and block sizes."""

from __future__ import annotations

from typing import Any

import pytest

from kvtool.report.views.plans.what_if import answer
from kvtool.report.views.plans.what_if_answers import (
    block_size_answer,
    routing_answer,
    split_answer,
    tier_answer,
    ttl_answer,
)
from kvtool.results.documents.what_if import SweepRow
from tests.report import what_if_documents as made


def row(axis: str, **fields: Any) -> SweepRow:
    shared: dict[str, Any] = {"hit_blocks": 0, "references": 100, "hit_rate": 0.1, "sure": "predicted"}
    return SweepRow(axis=axis, **{**shared, **fields})  # type: ignore[arg-type] # a word of the axes


TODAY: dict[str, Any] = {"host_blocks": 0, "disk_blocks": 0, "computed_tokens": 1000}
TIER: dict[str, Any] = {"host_blocks": 50, "disk_blocks": 0, "bandwidth": 14e9, "computed_tokens": 900}


def test_tiers() -> None:
    for today, tier, said in [
        (
            {"ttft_p99": 2.0},
            {"ttft_p99": 1.0, "break_even_tokens": 96},
            "A tier pays: TTFT p99 2.00 s without one, 1.00 s with",
        ),
        (
            {"ttft_p99": 2.0},
            {"ttft_p99": 1.0, "break_even_tokens": 96},
            "10.0% fewer prompt tokens computed. Loading is faster than computing from 96",
        ),
        ({"ttft_p99": 2.0}, {"ttft_p99": 2.5, "break_even_tokens": 16}, "No tier pays: "),
        (
            {"ttft_p99": 2.0},
            {"ttft_p99": 2.5, "break_even_tokens": 16},
            "Loading is faster than computing for every block of 16 tokens",
        ),
        ({"ttft_p99": 2.0}, {"ttft_p99": 2.5}, "Loading over this link is always slower than computing"),
        ({"ttft_p99": 1.0, "goodput": 3.0}, {"ttft_p99": 2.0, "goodput": 4.0}, "A tier pays: 3.00 requests/s within"),
        ({"ttft_p99": 2.0, "goodput": 4.0}, {"ttft_p99": 1.0, "goodput": 4.0}, "No tier pays: 4.00 requests/s within"),
        (
            {},
            {"loaded_rate": 0.4},
            "Hit rate 10.0% with GPU memory alone; with 50 blocks of host memory 10.0%, and 40.0% more is loaded",
        ),
    ]:
        assert said in tier_answer([row("tier", **TODAY, **today), row("tier", **TIER, **tier)], 16)


@pytest.mark.parametrize(
    ("mixed", "split", "said"),
    [
        ((2.0, 0.2, None), (1.0, 0.1, None), "Split 1 + 1 shortens both: TTFT p99 1.00 s instead of 2.00 s"),
        ((1.0, 0.2, None), (2.0, 0.1, None), "Split 1 + 1 shortens TPOT and lengthens TTFT: "),
        ((1.0, 0.1, None), (2.0, 0.2, None), "No split pays: 1 + 1 has TTFT p99 2.00 s instead of 1.00 s"),
        (
            (1.0, 0.2, 3.0),
            (2.0, 0.1, 4.0),
            "A split pays: 4.00 requests/s within the objectives split 1 + 1, 3.00 mixed",
        ),
        ((1.0, 0.2, 4.0), (2.0, 0.1, 3.0), "No split pays: 3.00 requests/s"),
        ((1.0, 0.2, 4.0), (2.0, 0.1, 4.0), "A split changes little: "),
    ],
)
def test_splits(mixed: tuple[float, float, float | None], split: tuple[float, float, float | None], said: str) -> None:
    def of(times: tuple[float, float, float | None], **pools: int) -> SweepRow:
        return row("pd", ttft_p99=times[0], tpot_p99=times[1], goodput=times[2], **pools)

    assert said in split_answer([of(mixed), of(split, prefill_replicas=1, decode_replicas=1)])


def served(routing: str, replicas: int, ttft: float, goodput: float, **more: Any) -> SweepRow:
    fields = {
        "routing": routing,
        "replicas": replicas,
        "ttft_p99": ttft,
        "goodput": goodput,
        "within_slo": goodput / 10,
    }
    return row(more.pop("axis", "replicas"), **fields, **more)


def test_the_fewest_replicas_for_an_objective() -> None:
    """The objective counts where there is one, and not the shortest wait."""
    rows = [served("random", 1, 3.0, 4.0), served("random", 2, 2.0, 9.5), served("random", 4, 1.0, 9.8)]
    told = routing_answer(rows)
    assert told.startswith(
        "2 replicas with random: 95.0% within the objectives, TTFT p99 2.00 s; 1 replica with random"
    )


@pytest.mark.parametrize("axis", ["replicas", "routing"])
def test_an_objective_that_no_fleet_meets(axis: str) -> None:
    rows = [served("random", 2, 3.0, 0.0, axis=axis), served("dynamo", 2, 2.0, 0.0, axis=axis)]
    assert routing_answer(rows).startswith("No setting serves a request within the objectives. ")


def test_an_objective_that_no_tier_and_no_split_meets() -> None:
    none = {"ttft_p99": 2.0, "tpot_p99": 0.1, "goodput": 0.0}
    tiers = [row("tier", **TODAY, **none), row("tier", **TIER, **none)]
    splits = [row("pd", replicas=2, **none), row("pd", replicas=2, prefill_replicas=1, decode_replicas=1, **none)]
    for told in (tier_answer(tiers, 16), split_answer(splits)):
        assert told.startswith("No setting serves a request within the objectives: ")


def test_the_router_that_serves_most_within_the_objectives_is_named() -> None:
    rows = [served("random", 2, 2.0, 1.0, axis="routing"), served("dynamo", 2, 3.0, 4.0, axis="routing")]
    assert "dynamo serves most within the objectives: 4.00 requests/s instead of 1.00" in routing_answer(rows)


def test_the_shortest_time_that_keeps_most() -> None:
    for rates, reachable, said in [
        ([0.1, 0.39, 0.4, 0.4], 0.4, "A time to live of 60 s is enough: hit rate 39.0%"),
        ([0.4, 0.4, 0.4, 0.4], 0.4, "The time to live has no effect from 30 s to 1 h: hit rate 40.0%"),
        ([0.0, 0.1, 0.2, 0.3], 0.4, "Every time to live is too short: hit rate 30.0% with 1 h"),
        ([0.1], 0.4, "Every time to live is too short: hit rate 10.0% with 30 s"),
        ([0.39], 0.4, "A time to live of 30 s is enough: hit rate 39.0%"),
        ([], 0.4, ""),
    ]:
        rows = [made.row("ttl", rate, ttl_seconds=ttl) for rate, ttl in zip(rates, (30, 60, 300, 3600), strict=False)]
        said = said.replace("60 s", "1 min")
        assert ttl_answer(rows, reachable) == said
        assert ttl_answer(rows[::-1], reachable) == said


def test_the_largest_block_that_loses_little() -> None:
    for rates, said in [
        ([0.4, 0.39, 0.385, 0.1], "Best block size: 16 tokens, hit rate 40.0%; 64 tokens: 38.5%"),
        ([0.4, 0.3, 0.2, 0.1], "Best block size: 16 tokens, hit rate 40.0%"),
        ([0.3, 0.4, 0.2, 0.1], "Best block size: 32 tokens, hit rate 40.0%"),
        ([0.4] * 4, "The block size has no effect from 16 to 128 tokens: hit rate 40.0%"),
        ([0.4], "Best block size: 16 tokens, hit rate 40.0%"),
        ([], ""),
    ]:
        rows = [made.row("block-size", rate, block_size=16 << step) for step, rate in enumerate(rates)]
        assert block_size_answer(rows) == said
        assert block_size_answer(rows[::-1]) == said


def test_of_several_rooms_the_largest_counts() -> None:
    def rows(*rooms: int | None) -> list[object]:
        return [
            made.row("block-size", rate, block_size=size, capacity=None if room is None else room // size)
            for size in (16, 48)
            for room, rate in zip(rooms, (0.2, 0.4 - size / 1000), strict=True)
        ]

    assert block_size_answer(rows(100, 1000)) == (  # type: ignore[arg-type] # rows they are
        "Best block size in a cache of 992 tokens: 16 tokens, hit rate 38.4%"
    )
    assert block_size_answer(rows(100, None)) == "Best block size: 16 tokens, hit rate 38.4%"  # type: ignore[arg-type] # rows


@pytest.mark.parametrize(
    ("case", "first"), [("ttls", "Every time to live is too short"), ("block_sizes", "Best block size: 16 tokens")]
)
def test_it_stands_before_what_an_unlimited_cache_hits(case: str, first: str) -> None:
    said = answer(made.CASES[case]())
    assert said.startswith(first)
    assert said.endswith(". Maximum with an unlimited cache: 40.0% of 1,000 blocks.")
