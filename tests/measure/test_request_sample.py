"""The sample of a run's requests: uniform, bounded, and balanced in every beginning; and the interval of a median."""

from __future__ import annotations

import random
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.quantiles import median_interval
from kvtool.accounting.servers.server import ServedRequest
from kvtool.engine.request import Request
from kvtool.measure import request_sample
from kvtool.measure.request_sample import RequestSample, SampledRequest, spread_out
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn


def sample_of(requests: list[tuple[int, int]], seed: int = 0) -> RequestSample:
    """Return the sample of a run of (prompt tokens, hit tokens)."""
    sample = RequestSample(seed)
    for number, (tokens, hit) in enumerate(requests):
        ids = np.zeros(tokens, np.int32)
        request = Request(str(number), tokens, prompt_ids=ids, output_ids=[0])
        sample.end(Job(Turn(group="g"), None, request, ids, 1, ""), None, ServedRequest(hit))
    return sample


REQUESTS = st.lists(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=40)


@given(REQUESTS)
def test_a_small_run_is_kept_whole(requests: list[tuple[int, int]]) -> None:
    sample = sample_of(requests)
    assert sample.is_whole
    assert sorted((each.num_tokens, each.hit_tokens) for each in sample.balanced()) == sorted(requests)
    assert sample.hit_rate * sum(tokens for tokens, _ in requests) == pytest.approx(sum(hit for _, hit in requests))


def test_every_request_of_a_long_run_is_as_likely_as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether memory or the number of requests bounds the sample: places have the mean of all of them."""
    for most, tokens in ((20, 10**9), (10**9, 4_000)):
        monkeypatch.setattr(request_sample, "_MOST_REQUESTS", most)
        monkeypatch.setattr(request_sample, "_MOST_TOKENS", tokens)
        places: list[int] = []
        for seed in range(200):
            sample = sample_of([(100, 0)] * 500, seed)
            assert not sample.is_whole
            kept = sample.balanced()
            assert 8 <= len(kept) <= 40
            places += [int(each.id) for each in kept]
        assert np.mean(places) == pytest.approx(249.5, abs=12)  # 3 standard errors
        assert np.mean(np.asarray(places) < 125) == pytest.approx(0.25, abs=0.04)


@given(st.lists(st.floats(0, 1), min_size=12, max_size=120), st.data())
def test_every_beginning_has_all_depths_of_hits(shares: list[float], data: st.DataObject) -> None:
    items = [SampledRequest(str(share), np.zeros(100, np.int32), [0], round(100 * share)) for share in sorted(shares)]
    order = spread_out(items)
    assert sorted(map(id, order)) == sorted(map(id, items))
    rank = {id(item): place / len(items) for place, item in enumerate(items)}
    some = data.draw(st.integers(5, len(items)))
    assert np.mean([rank[id(each)] for each in order[:some]]) == pytest.approx(0.5, abs=0.15)


def test_the_interval_contains_the_median_as_often_as_it_says() -> None:
    source = random.Random(1)
    for count in (6, 9, 20):
        inside = 0
        for _ in range(2_000):
            found = median_interval([source.expovariate(1.0) for _ in range(count)])
            assert found is not None
            inside += found.low <= np.log(2) <= found.high
        assert 0.94 <= inside / 2_000 <= 1.0
    assert median_interval([1.0] * 5) is None


@given(st.lists(st.floats(0, 1e3), min_size=6, max_size=60))
def test_the_interval_is_of_measured_values_around_their_median(values: list[float]) -> None:
    found = median_interval(values)
    assert found is not None
    assert found.low in values
    assert found.high in values
    assert found.low <= median(values) <= found.high
