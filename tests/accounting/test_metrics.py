"""Prometheus text, read back by a parser of the exposition format."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.metrics import TTFT_BUCKETS, Metrics, prometheus_text

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
SAMPLE = re.compile(rf"({NAME})\{{(.*)\}} (\S+)")
Sample = tuple[str, dict[str, str]]


def parse(text: str) -> tuple[dict[str, str], list[tuple[Sample, float]]]:
    """Types by metric, and samples; refuses what the format does not allow."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    helped: set[str] = set()
    samples: list[tuple[Sample, float]] = []
    for line in text[:-1].split("\n"):
        if found := re.fullmatch(rf"# HELP ({NAME}) (.*)", line):
            assert found[1] not in helped
            helped.add(found[1])
        elif found := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            assert found[1] in helped
            assert found[1] not in types
            types[found[1]] = found[2]
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            labels: dict[str, str] = {}
            at = 0
            while at < len(found[2]):
                label = LABEL.match(found[2], at)
                assert label, line
                assert label[1] not in labels
                labels[label[1]] = re.sub(r"\\(.)", lambda one: "\n" if one[1] == "n" else one[1], label[2])
                at = label.end() + 1
                assert found[2][label.end() : at] in ("", ",")
            family = re.sub("_(bucket|sum|count)$", "", found[1])
            latest = list(types)[-1]
            assert latest == (family if types.get(family) == "histogram" else found[1]), (
                "a family's lines stand together"
            )
            samples.append(((found[1], labels), float(found[3])))
    assert len({(name, *sorted(labels.items())) for (name, labels), _ in samples}) == len(samples)
    return types, samples


def metrics(**changes: object) -> Metrics:
    values: dict[str, object] = {
        "model_name": "llama-3.1-8b",
        "queries": 1493,
        "hits": 1120,
        "prompt_tokens": 1493,
        "cached_tokens": 1120,
        "generation_tokens": 125,
        "preemptions": 3,
        "ttft": [0.0005, 0.01, 0.0101, 3000.0],
        "kv_cache_usage": 0.25,
        "requests": 4,
        "computed": [1, 2, 70, 300],
        "config": {"block_size": "16", "num_gpu_blocks": "None"},
    }
    return Metrics(**(values | changes))  # type: ignore[arg-type]


def values(text: str) -> dict[str, float]:
    """Samples without histograms, by name and source."""
    _, samples = parse(text)
    return {
        name
        + (f" {labels['source']}" if "source" in labels else "")
        + (f" {labels['finished_reason']}" if "finished_reason" in labels else ""): value
        for (name, labels), value in samples
        if "seconds" not in name and "_kv_computed_" not in name
    }


def test_names_and_values_are_those_of_a_vllm_server() -> None:
    text = prometheus_text(metrics())
    assert values(text) == {
        "vllm:prefix_cache_queries_total": 1493,
        "vllm:prefix_cache_hits_total": 1120,
        "vllm:prompt_tokens_total": 1493,
        "vllm:prompt_tokens_by_source_total local_compute": 373,
        "vllm:prompt_tokens_by_source_total local_cache_hit": 1120,
        "vllm:prompt_tokens_by_source_total external_kv_transfer": 0,
        "vllm:prompt_tokens_cached_total": 1120,
        "vllm:prompt_tokens_cached_by_source_total device": 1120,
        "vllm:prompt_tokens_cached_by_source_total host": 0,
        "vllm:prompt_tokens_cached_by_source_total p2p": 0,
        "vllm:prompt_tokens_cached_by_source_total disk": 0,
        "vllm:prompt_tokens_cached_by_source_total external_unspecified": 0,
        "vllm:generation_tokens_total": 125,
        "vllm:num_preemptions_total": 3,
        "vllm:kv_cache_usage_perc": 0.25,
        "vllm:request_success_total stop": 0,
        "vllm:request_success_total length": 4,
        "vllm:request_success_total abort": 0,
        "vllm:request_success_total error": 0,
        "vllm:request_success_total repetition": 0,
        "vllm:cache_config_info": 1,
    }
    types, samples = parse(text)
    assert {name: kind for name, kind in types.items() if kind != "counter"} == {
        "vllm:kv_cache_usage_perc": "gauge",
        "vllm:cache_config_info": "gauge",
        "vllm:request_prefill_kv_computed_tokens": "histogram",
        "vllm:time_to_first_token_seconds": "histogram",
    }
    assert all(labels["engine"] == "0" for (_, labels), _ in samples)
    without = {name for (name, labels), _ in samples if labels.get("model_name") != "llama-3.1-8b"}
    assert without == {"vllm:cache_config_info"}


def test_a_cache_without_a_limit_has_no_usage() -> None:
    assert "vllm:kv_cache_usage_perc" not in prometheus_text(metrics(kv_cache_usage=None))


def histogram(text: str) -> tuple[list[tuple[str, float]], float, float]:
    _, samples = parse(text)
    name = "vllm:time_to_first_token_seconds"
    buckets = [(labels["le"], value) for (sample, labels), value in samples if sample == f"{name}_bucket"]
    (total,) = [value for (sample, _), value in samples if sample == f"{name}_sum"]
    (count,) = [value for (sample, _), value in samples if sample == f"{name}_count"]
    return buckets, total, count


def test_a_bucket_counts_what_is_at_most_its_bound() -> None:
    buckets, total, count = histogram(prometheus_text(metrics()))
    assert [bound for bound, _ in buckets] == [*map(str, TTFT_BUCKETS), "+Inf"]
    assert dict(buckets)["0.001"] == 1
    assert dict(buckets)["0.005"] == 1
    assert dict(buckets)["0.01"] == 2
    assert dict(buckets)["0.02"] == dict(buckets)["2560.0"] == 3
    assert dict(buckets)["+Inf"] == count == 4
    assert total == pytest.approx(3000.0206)


@given(st.lists(st.sampled_from(TTFT_BUCKETS) | st.floats(0, 1e4), max_size=40))
def test_buckets_are_cumulative(seconds: list[float]) -> None:
    buckets, total, count = histogram(prometheus_text(metrics(ttft=seconds)))
    for bound, value in buckets:
        assert value == sum(one <= float(bound) for one in seconds)
    assert count == len(seconds)
    assert math.isclose(total, math.fsum(seconds), rel_tol=1e-12)


@given(st.text(max_size=20) | st.sampled_from(['a"b', "a\\", "a\nb", '\\"', "\\n", 'x",engine="9', "}", "é"]))
def test_any_name_comes_back(name: str) -> None:
    _, samples = parse(prometheus_text(metrics(model_name=name)))
    assert {labels["model_name"] for (_, labels), _ in samples if "model_name" in labels} == {name}
