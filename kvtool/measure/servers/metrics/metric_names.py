"""Names of the metrics of servers. vLLM's (0.32) and llama.cpp's were measured; SGLang's are as its documentation has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

QUERIES, HITS = "queries", "hits"
PROMPT, COMPUTED, CACHED, EXTERNAL = "prompt", "computed", "cached", "external"
EXTERNAL_QUERIES, EXTERNAL_HITS = "external_queries", "external_hits"
GENERATED, PREEMPTIONS, REQUESTS = "generated", "preemptions", "requests"
USAGE, RUNNING, WAITING, HIT_RATE = "usage", "running", "waiting", "hit_rate"
TTFT, QUEUE, PREFILL = "ttft", "queue", "prefill"
PROMPT_SIZES = "prompt_sizes"


@dataclass(frozen=True, slots=True)
class CountedAs:
    """A metric: its name, and the labels that a sample of it must have; samples that differ in others are added up."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricNames:
    """Metric names of one kind of server. Counters and histograms begin at 0 with the process; a gauge is what is now."""

    server: str
    prefix: str
    measured: bool
    """Whether kvtool was run beside such a server; else its names are known from documentation alone."""
    counters: Mapping[str, CountedAs]
    gauges: Mapping[str, CountedAs]
    histograms: Mapping[str, str]
    engine: str = "engine"
    """The label that distinguishes the engines of a server."""


_VLLM = MetricNames(
    server="vLLM",
    prefix="vllm:",
    measured=True,
    counters={
        QUERIES: CountedAs("vllm:prefix_cache_queries_total"),
        HITS: CountedAs("vllm:prefix_cache_hits_total"),
        PROMPT: CountedAs("vllm:prompt_tokens_total"),
        COMPUTED: CountedAs("vllm:prompt_tokens_by_source_total", {"source": "local_compute"}),
        CACHED: CountedAs("vllm:prompt_tokens_by_source_total", {"source": "local_cache_hit"}),
        EXTERNAL: CountedAs("vllm:prompt_tokens_by_source_total", {"source": "external_kv_transfer"}),
        EXTERNAL_QUERIES: CountedAs("vllm:external_prefix_cache_queries_total"),
        EXTERNAL_HITS: CountedAs("vllm:external_prefix_cache_hits_total"),
        GENERATED: CountedAs("vllm:generation_tokens_total"),
        PREEMPTIONS: CountedAs("vllm:num_preemptions_total"),
        REQUESTS: CountedAs("vllm:request_success_total"),
    },
    gauges={
        USAGE: CountedAs("vllm:kv_cache_usage_perc"),
        RUNNING: CountedAs("vllm:num_requests_running"),
        WAITING: CountedAs("vllm:num_requests_waiting"),
    },
    histograms={
        TTFT: "vllm:time_to_first_token_seconds",
        QUEUE: "vllm:request_queue_time_seconds",
        PREFILL: "vllm:request_prefill_time_seconds",
        PROMPT_SIZES: "vllm:request_prompt_tokens",
    },
)

_SGLANG = MetricNames(
    server="SGLang",
    prefix="sglang:",
    measured=False,
    counters={
        PROMPT: CountedAs("sglang:prompt_tokens_total"),
        CACHED: CountedAs("sglang:cached_tokens_total"),
        GENERATED: CountedAs("sglang:generation_tokens_total"),
        REQUESTS: CountedAs("sglang:num_requests_total"),
    },
    gauges={
        USAGE: CountedAs("sglang:token_usage"),
        RUNNING: CountedAs("sglang:num_running_reqs"),
        WAITING: CountedAs("sglang:num_queue_reqs"),
        HIT_RATE: CountedAs("sglang:cache_hit_rate"),
    },
    histograms={TTFT: "sglang:time_to_first_token_seconds"},
    engine="dp_rank",
)

_LLAMA_CPP = MetricNames(
    server="llama.cpp",
    prefix="llamacpp:",
    measured=True,
    counters={
        COMPUTED: CountedAs(
            "llamacpp:prompt_tokens_total"
        ),  # those that it worked on: what a slot had is not among them
        CACHED: CountedAs("llamacpp:prompt_tokens_cached_total"),
        GENERATED: CountedAs("llamacpp:tokens_predicted_total"),
    },
    gauges={
        USAGE: CountedAs("llamacpp:kv_cache_usage_ratio"),
        RUNNING: CountedAs("llamacpp:requests_processing"),
        WAITING: CountedAs("llamacpp:requests_deferred"),
    },
    histograms={},
)

KINDS = (_VLLM, _SGLANG, _LLAMA_CPP)
