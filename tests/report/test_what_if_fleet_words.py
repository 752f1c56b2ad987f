"""What the first line says of tiers and of split fleets."""

from __future__ import annotations

from typing import Any

import pytest

from kvtool.report.words.routing_words import routing_answer
from kvtool.report.words.what_if_fleet_words import split_answer, tier_answer
from kvtool.results.documents.what_if import SweepRow


def row(axis: str, **fields: Any) -> SweepRow:
    shared: dict[str, Any] = {"hit_blocks": 0, "references": 100, "hit_rate": 0.1, "sure": "predicted"}
    return SweepRow(axis=axis, **{**shared, **fields})  # type: ignore[arg-type] # a word of the axes


TODAY: dict[str, Any] = {"host_blocks": 0, "disk_blocks": 0, "computed_tokens": 1000}
TIER: dict[str, Any] = {"host_blocks": 50, "disk_blocks": 0, "bandwidth": 14e9, "computed_tokens": 900}


@pytest.mark.parametrize(
    ("today", "tier", "said"),
    [
        (
            {"ttft_p99": 2.0},
            {"ttft_p99": 1.0, "break_even_tokens": 96},
            "A tier pays: TTFT p99 2.00 s without one, 1.00 s with",
        ),
        (
            {"ttft_p99": 2.0},
            {"ttft_p99": 1.0, "break_even_tokens": 96},
            "10.0% fewer prompt tokens computed. A prefix shorter than 96",
        ),
        ({"ttft_p99": 2.0}, {"ttft_p99": 2.5, "break_even_tokens": 16}, "No tier pays: "),
        ({"ttft_p99": 2.0}, {"ttft_p99": 2.5, "break_even_tokens": 16}, "Every block of 16 tokens is loaded faster"),
        ({"ttft_p99": 2.0}, {"ttft_p99": 2.5}, "No prefix is loaded over that link faster than it is computed"),
        ({"ttft_p99": 1.0, "goodput": 3.0}, {"ttft_p99": 2.0, "goodput": 4.0}, "A tier pays: 3.00 requests/s within"),
        ({"ttft_p99": 2.0, "goodput": 4.0}, {"ttft_p99": 1.0, "goodput": 4.0}, "No tier pays: 4.00 requests/s within"),
        (
            {},
            {"loaded_rate": 0.4},
            "The GPU alone hits 10.0%; with 50 blocks of host memory it hits 10.0% and 40.0% can be loaded",
        ),
    ],
)
def test_tiers(today: dict[str, Any], tier: dict[str, Any], said: str) -> None:
    assert said in tier_answer([row("tier", **TODAY, **today), row("tier", **TIER, **tier)], 16)


@pytest.mark.parametrize(
    ("mixed", "split", "said"),
    [
        ((2.0, 0.2, None), (1.0, 0.1, None), "Split 1 + 1 both are shorter: TTFT p99 1.00 s beside 2.00 s"),
        ((1.0, 0.2, None), (2.0, 0.1, None), "A split trades TTFT for TPOT, 1 + 1: "),
        ((1.0, 0.1, None), (2.0, 0.2, None), "No split pays: 1 + 1 has TTFT p99 2.00 s beside 1.00 s"),
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
    assert routing_answer(rows).startswith("Nothing that was tried serves a request within the objectives. ")


def test_an_objective_that_no_tier_and_no_split_meets() -> None:
    none = {"ttft_p99": 2.0, "tpot_p99": 0.1, "goodput": 0.0}
    tiers = [row("tier", **TODAY, **none), row("tier", **TIER, **none)]
    splits = [row("pd", replicas=2, **none), row("pd", replicas=2, prefill_replicas=1, decode_replicas=1, **none)]
    for told in (tier_answer(tiers, 16), split_answer(splits)):
        assert told.startswith("Nothing that was tried serves a request within the objectives: ")


def test_the_router_that_serves_most_within_the_objectives_is_named() -> None:
    rows = [served("random", 2, 2.0, 1.0, axis="routing"), served("dynamo", 2, 3.0, 4.0, axis="routing")]
    assert "Most within the objectives serves dynamo: 4.00 requests/s, 1.00 there" in routing_answer(rows)
