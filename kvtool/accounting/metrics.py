"""The figures of a run as Prometheus text, under the names that a vLLM server gives them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import fsum

TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Upper bounds in seconds of vLLM's `time_to_first_token_seconds`."""
TOKEN_BUCKETS = tuple(float(step * 10**power) for power in range(7) for step in (1, 2, 5))
"""Upper bounds in tokens of vLLM's `request_prefill_kv_computed_tokens`: it leaves out those beyond the longest prompt."""

_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_ENDS = ("stop", "length", "abort", "error", "repetition")

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of a run: tokens, unless the name says otherwise."""

    model_name: str
    queries: int
    """Tokens looked up in the prefix cache, each request once: resumes after a preemption do not count."""
    hits: int
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that were not computed."""
    generation_tokens: int
    preemptions: int
    ttft: Sequence[float]
    """Predicted seconds to the first token of each request."""
    requests: int = 0
    computed: Sequence[int] = ()
    """Each request's prompt tokens, without cached ones."""
    config: Labels = field(default_factory=dict)
    """Configuration of the cache, in vLLM's labels; empty if no engine ran."""
    kv_cache_usage: float | None = None
    """The largest used part of the usable blocks; None in a cache without a limit."""


def prometheus_text(metrics: Metrics) -> str:
    """Return the text exposition format, version 0.0.4."""
    labels = {"model_name": metrics.model_name, "engine": "0"}
    by_source = {
        "local_compute": metrics.prompt_tokens - metrics.cached_tokens,
        "local_cache_hit": metrics.cached_tokens,
        "external_kv_transfer": 0,
    }
    lines = [
        *_counter("prefix_cache_queries", "Prefix cache queries, in tokens.", [(labels, metrics.queries)]),
        *_counter("prefix_cache_hits", "Prefix cache hits, in tokens.", [(labels, metrics.hits)]),
        *_counter("prompt_tokens", "Prompt tokens.", [(labels, metrics.prompt_tokens)]),
        *_counter(
            "prompt_tokens_by_source",
            "Prompt tokens by the source of their KV.",
            [({**labels, "source": source}, tokens) for source, tokens in by_source.items()],
        ),
        *_counter("prompt_tokens_cached", "Prompt tokens that were not computed.", [(labels, metrics.cached_tokens)]),
        *_counter(
            "prompt_tokens_cached_by_source",
            "Prompt tokens that were not computed, by cache tier.",
            [({**labels, "source": tier}, metrics.cached_tokens if tier == _TIERS[0] else 0) for tier in _TIERS],
        ),
        *_counter("generation_tokens", "Generated tokens.", [(labels, metrics.generation_tokens)]),
        *_counter("num_preemptions", "Preemptions.", [(labels, metrics.preemptions)]),
        *_counter(
            "request_success",
            "Answered requests; each ends at its given length.",
            [
                ({**labels, "finished_reason": reason}, metrics.requests if reason == "length" else 0)
                for reason in _ENDS
            ],
        ),
    ]
    if metrics.kv_cache_usage is not None:
        name = "vllm:kv_cache_usage_perc"
        lines += _head(name, "gauge", "Largest share of the KV cache in use at once, from 0 to 1.")
        lines.append(_sample(name, labels, metrics.kv_cache_usage))
    if metrics.config:
        name = "vllm:cache_config_info"
        lines += _head(name, "gauge", "How the cache is configured.")
        lines.append(_sample(name, {**metrics.config, "engine": labels["engine"]}, 1.0))
    lines += _histogram(
        "vllm:request_prefill_kv_computed_tokens",
        "Tokens of a prompt that were computed.",
        labels,
        TOKEN_BUCKETS,
        metrics.computed,
    )
    lines += _histogram(
        "vllm:time_to_first_token_seconds", "Time to the first token, predicted.", labels, TTFT_BUCKETS, metrics.ttft
    )
    return "".join(f"{line}\n" for line in lines)


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _counter(name: str, text: str, samples: Iterable[tuple[Labels, int]]) -> Iterator[str]:
    name = f"vllm:{name}_total"
    yield from _head(name, "counter", text)
    for labels, value in samples:
        yield _sample(name, labels, value)


def _histogram(name: str, text: str, labels: Labels, bounds: Sequence[float], values: Sequence[float]) -> Iterator[str]:
    yield from _head(name, "histogram", text)
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    for bound, count in zip([*map(str, bounds), "+Inf"], accumulate(counts), strict=True):
        yield _sample(f"{name}_bucket", {**labels, "le": bound}, count)
    yield _sample(f"{name}_sum", labels, fsum(values))
    yield _sample(f"{name}_count", labels, len(values))


def _sample(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
