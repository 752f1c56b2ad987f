"""What sweeps of times to live and of block sizes say first."""

from __future__ import annotations

import pytest

from kvtool.report.words.setting_words import block_size_answer, ttl_answer
from kvtool.report.words.what_if_words import answer
from tests.report.what_if_documents import CASES, row


@pytest.mark.parametrize(
    ("rates", "reachable", "said"),
    [
        ([0.1, 0.39, 0.4, 0.4], 0.4, "60 s is enough: hit rate 39.0%"),
        ([0.4, 0.4, 0.4, 0.4], 0.4, "The time to live changes nothing from 30 s to 1 h: hit rate 40.0%"),
        ([0.0, 0.1, 0.2, 0.3], 0.4, "No time to live that was tried is enough: the longest, 1 h, hits 30.0%"),
        ([0.1], 0.4, "No time to live that was tried is enough: the longest, 30 s, hits 10.0%"),
        ([0.39], 0.4, "30 s is enough: hit rate 39.0%"),
        ([], 0.4, ""),
    ],
)
def test_the_shortest_time_that_keeps_most(rates: list[float], reachable: float, said: str) -> None:
    rows = [row("ttl", rate, ttl_seconds=ttl) for rate, ttl in zip(rates, (30, 60, 300, 3600), strict=False)]
    said = said.replace("60 s", "1 min")
    assert ttl_answer(rows, reachable) == said
    assert ttl_answer(rows[::-1], reachable) == said


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([0.4, 0.39, 0.385, 0.1], "Blocks of 16 tokens hit most, 40.0% of the prompts; 64 lose little, 38.5%"),
        ([0.4, 0.3, 0.2, 0.1], "Blocks of 16 tokens hit most, 40.0% of the prompts"),
        ([0.3, 0.4, 0.2, 0.1], "Blocks of 32 tokens hit most, 40.0% of the prompts"),
        ([0.4] * 4, "The block size changes nothing from 16 to 128 tokens: 40.0% of the prompts hit"),
        ([0.4], "Blocks of 16 tokens hit most, 40.0% of the prompts"),
        ([], ""),
    ],
)
def test_the_largest_block_that_loses_little(rates: list[float], said: str) -> None:
    rows = [row("block-size", rate, block_size=16 << step) for step, rate in enumerate(rates)]
    assert block_size_answer(rows) == said
    assert block_size_answer(rows[::-1]) == said


def test_of_several_rooms_the_largest_counts() -> None:
    def rows(*rooms: int | None) -> list[object]:
        return [
            row("block-size", rate, block_size=size, capacity=None if room is None else room // size)
            for size in (16, 48)
            for room, rate in zip(rooms, (0.2, 0.4 - size / 1000), strict=True)
        ]

    assert block_size_answer(rows(100, 1000)) == (  # type: ignore[arg-type] # rows they are
        "Blocks of 16 tokens hit most with room for 992 tokens, 38.4% of the prompts"
    )
    assert block_size_answer(rows(100, None)) == "Blocks of 16 tokens hit most, 38.4% of the prompts"  # type: ignore[arg-type] # rows


@pytest.mark.parametrize(
    ("case", "first"), [("ttls", "No time to live"), ("block_sizes", "Blocks of 16 tokens hit most")]
)
def test_it_stands_before_what_an_unlimited_cache_hits(case: str, first: str) -> None:
    said = answer(CASES[case]())
    assert said.startswith(first)
    assert said.endswith(". An unlimited cache hits 40.0% of 1,000 blocks.")
