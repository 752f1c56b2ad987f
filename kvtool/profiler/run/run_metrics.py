"""The metrics of a run, as a server exports them."""

from __future__ import annotations

from kvtool.accounting.metrics import Metrics
from kvtool.accounting.plan import Plan
from kvtool.profiler.run.run_books import CounterBook, TimeBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.report import Totals


def run_metrics(plan: Plan, result: RunResult, total: Totals) -> Metrics:
    """Make the metrics of a run as a server exports them."""
    blocks = plan.engine.num_blocks
    engine_ran = plan.by_engine
    counts, times = result.counts, result.book(TimeBook)
    return Metrics(
        model_name=plan.model_name or "unknown",
        queries=counts.queries if engine_ran else total.prompt_tokens,
        hits=counts.hit_queries if engine_ran else total.hit_tokens,
        prompt_tokens=total.prompt_tokens,
        cached_tokens=total.hit_tokens,
        generation_tokens=result.book(CounterBook).generation_tokens,
        preemptions=counts.preemptions,
        ttft=times.on,
        requests=total.requests,
        computed=times.computed,
        config=_cache_config(plan) if engine_ran else {},
        kv_cache_usage=counts.peak_used_blocks / (blocks - 1) if blocks is not None and engine_ran else None,
    )


def _cache_config(plan: Plan) -> dict[str, str]:
    """Return the plan's labels of vLLM's `cache_config_info`; "None" for unset ones, as there."""
    engine = plan.engine
    tokens = None if engine.num_blocks is None else engine.num_blocks * engine.block_size
    return {
        "block_size": str(engine.block_size),
        "cache_dtype": plan.kv_cache_dtype,
        "effective_attention_block_size": str(engine.block_size),
        "enable_prefix_caching": str(engine.enable_prefix_caching),
        "kv_cache_size_tokens": str(tokens),
        "num_gpu_blocks": str(engine.num_blocks),
        "num_gpu_blocks_override": "None",
        "prefix_caching_hash_algo": engine.hash_algo,
        "sliding_window": "None",
    }
