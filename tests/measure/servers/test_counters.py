"""What a server has counted, from one scrape to the next, and whether it is the same server."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counted_between import counted_between, since_start
from kvtool.measure.servers.metrics.counters import Scrape, scrape_of
from kvtool.measure.servers.metrics.exposition import BucketCounts, parse_exposition
from tests.measure.servers.made_metrics import CREATED, vllm_metrics
from tests.measure.servers.recordings import recording

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")


def _scrape(text: str, at: float | None = None) -> Scrape:
    return scrape_of(parse_exposition(text, shown="f"), shown="f", at=at)


def test_deltas_of_recordings_are_the_sums_of_their_usage() -> None:
    for folder, prompt, cached, requests in [
        ("sequential", 544_440, 469_696, 276),
        ("eviction", 376_469, 158_624, 200),
        ("concurrent", 441_741, 169_696, 197),
    ]:
        before, after = (
            _scrape((recording(folder) / f"metrics_{when}.txt").read_text(encoding="utf-8"))
            for when in ("before", "after")
        )
        counted = counted_between(before, after)
        assert counted.broken is None
        assert [
            counted.get(name) for name in (names.PROMPT, names.QUERIES, names.HITS, names.CACHED, names.COMPUTED)
        ] == [
            prompt,
            prompt,
            cached,
            cached,
            prompt - cached,
        ]
        assert counted.get(names.REQUESTS) == requests
        assert counted.histograms[names.TTFT].count == requests


def test_counters_of_engines_are_added_up_and_gauges_are_those_of_all() -> None:
    text = vllm_metrics(prompt=100, cached=40, usage=0.2) + vllm_metrics(
        prompt=900, cached=300, usage=0.6, engine="1"
    ).replace("# TYPE vllm:cache_config_info gauge\n", "")
    scrape = _scrape(text)
    assert len(scrape.engines) == 2
    assert since_start(scrape).counts[names.PROMPT] == 1000
    assert scrape.gauge(names.USAGE) == pytest.approx(0.4)
    assert scrape.gauge(names.RUNNING) == 4
    assert scrape.models == ["m"]


def test_a_restart_is_told_from_several_servers() -> None:
    for created, prompt, at, broken in [
        (CREATED, 1500, None, None),
        (CREATED + 1000, 300, None, "restart"),
        (CREATED + 1000, 300, CREATED + 500, "restart"),
        (CREATED + 1000, 300_000, CREATED + 5000, "several servers"),  # it ran already when the first one was asked
        (CREATED - 1, 300_000, None, "several servers"),
        (CREATED, 999, None, "restart"),
        (None, 1500, None, None),
        (None, 999, None, "restart"),
    ]:
        first = CREATED if created is not None else None
        before = _scrape(vllm_metrics(created=first, prompt=1000, cached=100), at)
        after = _scrape(vllm_metrics(created=created, prompt=prompt, cached=200), None if at is None else at + 2000)
        counted = counted_between(before, after)
        assert counted.broken == broken
        match broken:
            case None:
                assert counted.get(names.PROMPT) == prompt - 1000
            case "restart":
                assert counted.get(names.PROMPT) == prompt  # what the new process has counted
            case "several servers":
                assert counted.counts == {}


def test_servers_of_other_models_are_several() -> None:
    assert counted_between(_scrape(vllm_metrics()), _scrape(vllm_metrics(model="other"))).broken == "several servers"


def test_what_is_no_number_is_not_counted() -> None:
    text = vllm_metrics().replace("vllm:num_preemptions_total{", "vllm:other_total{")
    broken = text.replace('model_name="m"} 50.0', 'model_name="m"} NaN')
    scrape = _scrape(broken)
    assert names.PREEMPTIONS not in since_start(scrape).counts
    assert names.GENERATED not in since_start(scrape).counts


def test_a_release_without_sources_has_computed_tokens_all_the_same() -> None:
    lines = [line for line in vllm_metrics(prompt=1000, cached=400).splitlines() if "by_source" not in line]
    counts = since_start(_scrape("\n".join(lines))).counts
    assert (counts[names.CACHED], counts[names.COMPUTED]) == (400, 600)


def test_metrics_of_sglang_and_llama_cpp_are_read() -> None:
    sglang = _scrape(
        "# TYPE sglang:prompt_tokens_total counter\n"
        'sglang:prompt_tokens_total{model_name="q"} 1000.0\n'
        "# TYPE sglang:cached_tokens_total counter\n"
        'sglang:cached_tokens_total{model_name="q",cache_source="device"} 300.0\n'
        'sglang:cached_tokens_total{model_name="q",cache_source="host"} 100.0\n'
        'sglang:cache_hit_rate{model_name="q"} 0.4\nsglang:num_running_reqs{model_name="q"} 3\n'
    )
    assert since_start(sglang).hit_rate == pytest.approx(0.4)
    assert sglang.gauge(names.HIT_RATE) == pytest.approx(0.4)
    assert not sglang.of.measured
    llama = _scrape("llamacpp:prompt_tokens_total 70\nllamacpp:requests_processing 1\n")
    assert since_start(llama).counts[names.COMPUTED] == 70
    assert since_start(llama).hit_rate is None


def test_metrics_of_something_else_are_refused() -> None:
    with pytest.raises(KvtoolError, match="no metrics of a server that kvtool knows"):
        _scrape("http_requests_total 3\n")


@given(st.lists(st.floats(0, 30), min_size=1, max_size=40), st.floats(0, 1))
def test_a_quantile_lies_in_the_bucket_of_the_value_it_stands_for(values: list[float], part: float) -> None:
    bounds = (0.1, 0.5, 1.0, 5.0, inf)
    counts = [0] * len(bounds)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    buckets = BucketCounts(bounds, tuple(accumulate(map(float, counts))), sum(values))
    true = sorted(values)[max(0, -int(-part * len(values) // 1) - 1)]
    index = bisect_left(bounds, true)
    low = bounds[index - 1] if index else 0.0
    found = buckets.quantile(part)
    assert found is not None
    if part > 0:
        assert low <= found <= (low if bounds[index] == inf else bounds[index])


def test_a_quantile_in_the_first_bucket_is_no_more_than_the_sum_allows() -> None:
    buckets = BucketCounts((0.3, inf), (200.0, 200.0), 0.008)
    found = buckets.quantile(0.5)
    assert found is not None
    assert found <= 0.008 / 100


ABSURD = ("-1e300", "-1", "NaN", "+Inf", "-Inf", "1e999", "9" * 5000, "1e17")


@given(st.data())
def test_values_that_cannot_be_are_left_out_and_counted(data: st.DataObject) -> None:
    lines = vllm_metrics(prompt=100, cached=40, usage=0.5).splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("vllm:")]
    changed = data.draw(st.lists(st.sampled_from(at), unique=True, max_size=5))
    for number in changed:
        lines[number] = f"{lines[number].rpartition(' ')[0]} {data.draw(st.sampled_from(ABSURD))}"
    scrape = _scrape("\n".join(lines) + "\n")
    counted = since_start(scrape)
    assert all(0 <= count < 1 << 60 for count in counted.counts.values())
    assert all(0 <= engine.gauges.get(names.USAGE, 0) <= 1 for engine in scrape.engines.values())
    assert all(0 <= (buckets.quantile(0.9) or 0) < inf for buckets in counted.histograms.values())
    assert scrape.left_out <= len(changed)
    assert bool(scrape.notes) == bool(scrape.left_out)


def test_metrics_of_which_no_value_can_be_are_said_to_be_so() -> None:
    with pytest.raises(KvtoolError, match="negative, infinite or too large"):
        _scrape("vllm:prefix_cache_queries_total -5\nvllm:prefix_cache_hits_total NaN\n")
    with pytest.raises(KvtoolError, match="more than 50,000 lines"):
        _scrape("a 1\n" * 50_001)
