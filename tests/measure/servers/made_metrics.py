"""Texts of /metrics as vLLM 0.32 writes them, with figures of a test's own."""

from __future__ import annotations

CREATED = 1_795_334_000.5
_CONFIG = {
    "block_size": "32",
    "effective_attention_block_size": "32",
    "num_gpu_blocks": "400",
    "num_gpu_blocks_override": "400",
    "prefix_caching_hash_algo": "sha256_cbor",
    "enable_prefix_caching": "True",
    "cache_dtype": "auto",
    "sliding_window": "None",
    "mamba_block_size": "None",
    "is_attention_free": "False",
}


def vllm_metrics(
    *,
    prompt: int = 1000,
    queries: int | None = None,
    cached: int = 400,
    external: int = 0,
    external_queries: int | None = None,
    preemptions: int = 0,
    requests: int = 10,
    generated: int = 50,
    usage: float = 0.25,
    running: int = 2,
    waiting: int = 1,
    ttft: dict[str, int] | None = None,
    ttft_sum: float = 0.0,
    created: float | None = CREATED,
    engine: str = "0",
    model: str = "m",
    config: dict[str, str] | None = None,
    more: str = "",
) -> str:
    """One engine's scrape; `ttft` has cumulative counts by bound."""
    labels = f'engine="{engine}",model_name="{model}"'
    counters = {
        "prefix_cache_queries": prompt if queries is None else queries,
        "prefix_cache_hits": cached,
        "external_prefix_cache_queries": external if external_queries is None else external_queries,
        "external_prefix_cache_hits": external,
        "prompt_tokens": prompt,
        "generation_tokens": generated,
        "num_preemptions": preemptions,
    }
    lines = []
    for name, value in counters.items():
        lines += [f"# TYPE vllm:{name}_total counter", f"vllm:{name}_total{{{labels}}} {value}.0"]
        if created is not None:
            lines += [f"# TYPE vllm:{name}_created gauge", f"vllm:{name}_created{{{labels}}} {created!r}"]
    lines.append("# TYPE vllm:prompt_tokens_by_source_total counter")
    sources = {"local_compute": prompt - cached - external, "local_cache_hit": cached, "external_kv_transfer": external}
    lines += [
        f'vllm:prompt_tokens_by_source_total{{{labels},source="{name}"}} {value}.0' for name, value in sources.items()
    ]
    lines.append("# TYPE vllm:request_success_total counter")
    lines += [
        f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {value}.0'
        for reason, value in (("length", requests), ("stop", 0))
    ]
    gauges = {"kv_cache_usage_perc": usage, "num_requests_running": running, "num_requests_waiting": waiting}
    for name, gauge in gauges.items():
        lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{labels}}} {gauge}"]
    if ttft is not None:
        name = "vllm:time_to_first_token_seconds"
        lines.append(f"# TYPE {name} histogram")
        lines += [f'{name}_bucket{{{labels},le="{bound}"}} {count}.0' for bound, count in ttft.items()]
        lines += [f"{name}_sum{{{labels}}} {ttft_sum}", f"{name}_count{{{labels}}} {max(ttft.values())}.0"]
    told = ",".join(f'{key}="{value}"' for key, value in {**_CONFIG, **(config or {}), "engine": engine}.items())
    lines += ["# TYPE vllm:cache_config_info gauge", f"vllm:cache_config_info{{{told}}} 1.0"]
    return "\n".join(lines) + "\n" + more
