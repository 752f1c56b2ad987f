"""What the first line says of tiers and of split fleets."""

from __future__ import annotations

from typing import Any

import pytest

from kvtool.report.what_if_fleet_words import split_answer, tier_answer
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
