"""Logs that count cached or written tokens twice are read with each token once; no right log is changed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kvtool.workload.call import Call, Usage
from kvtool.workload.counted_twice import CountedTwice


def made_calls(source: random.Random, *, marked: bool, hidden: int = 0) -> Iterator[tuple[Usage, int]]:
    """Yield the usage of a conversation, with our tokens of its text; `hidden` tokens of each prompt are in no log."""
    scale, own, cached = source.uniform(0.8, 1.35), source.randrange(2_000, 20_000), 0
    for _ in range(source.randrange(5, 20)):
        prompt = round(own * scale * source.uniform(0.98, 1.02)) + hidden
        cached = min(cached, prompt - 2)
        yield Usage(prompt, cached, prompt - cached if marked else None), own
        cached, own = prompt, own + source.randrange(100, 3_000)


@pytest.mark.parametrize("hidden", [0, 3_000, 30_000])
@pytest.mark.parametrize("marked", [True, False])
def test_right_usage_is_left_alone(marked: bool, hidden: int) -> None:
    for seed in range(60):
        counts = CountedTwice()
        for usage, own in made_calls(random.Random(seed), marked=marked, hidden=hidden):
            assert counts.mended(Call(model="m", usage=usage), own).usage == usage


def test_what_counts_twice_counts_once() -> None:
    for marked, read, written in [(False, 1, 0), (True, 0, 1), (True, 1, 1)]:
        for seed in range(60):
            counts = CountedTwice()
            for usage, own in made_calls(random.Random(seed), marked=marked):
                assert usage.prompt is not None
                more = read * (usage.cached or 0) + written * (usage.written or 0)
                twice = Usage(usage.prompt + more, usage.cached, usage.written)
                mended = counts.mended(Call(model="m", usage=twice), own)
                assert mended.usage == usage
                assert mended.counted_twice == (more > 0)
