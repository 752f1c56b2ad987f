"""vLLM's own planner on cases from standard input: run with the Python of an environment that has vLLM; no GPU is needed.

Each line is a JSON object with `params` as in recorded sizes and `available_bytes`; each line of the output says what vLLM made of
it, or {"error": …}. Nothing of kvtool is imported, and vLLM's configuration is what its planner reads of it, no more.
"""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any

from vllm.config import SpeculativeConfig, VllmConfig
from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups, get_kv_cache_configs
from vllm.v1.core.kv_cache_utils import (
    generate_scheduler_kv_cache_config,
    get_kv_cache_capacity,
    resolve_cache_hit_alignment_tokens,
    resolve_kv_cache_block_sizes,
)
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    SlidingWindowSpec,
    iter_layer_specs,
)
from vllm.v1.kv_cache_layout import KVCacheLayout
from vllm_layers import layer

KINDS = {
    "FullAttentionSpec": "full",
    "MLAAttentionSpec": "mla",
    "SlidingWindowSpec": "sliding",
    "ChunkedLocalAttentionSpec": "chunked",
    "MambaSpec": "mamba",
}


class Speculative(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        return getattr(SpeculativeConfig, name).__get__(self)


class Config(SimpleNamespace):
    max_in_flight_tokens = VllmConfig.max_in_flight_tokens
    num_speculative_tokens = VllmConfig.num_speculative_tokens
    num_lookahead_tokens = VllmConfig.num_lookahead_tokens
    num_prefill_lookahead_tokens = VllmConfig.num_prefill_lookahead_tokens
    num_hash_lookahead_tokens = VllmConfig.num_hash_lookahead_tokens


def config(params: dict[str, Any]) -> Config:
    drafts = params["spec"]
    layout = KVCacheLayout[params["kv_cache_layout"]]
    return Config(
        model_config=SimpleNamespace(
            max_model_len=params["max_model_len"], original_max_model_len=None, supports_kv_cache_grouping=False
        ),
        cache_config=SimpleNamespace(
            block_size=params["block_size"],
            enable_prefix_caching=params["enable_prefix_caching"],
            prefix_match_unit=params["prefix_match_unit"],
            mamba_cache_mode="align" if params["enable_prefix_caching"] else "none",
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=0,
            get_resolved_kv_cache_layout=lambda: layout,
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=params["disable_hybrid_kv_cache_manager"],
            max_num_batched_tokens=params["max_num_batched_tokens"],
        ),
        parallel_config=SimpleNamespace(decode_context_parallel_size=params["dcp"], tensor_parallel_size=1),
        attention_config=SimpleNamespace(hisparse_config=None),
        kv_transfer_config=None,
        diffusion_config=None,
        max_concurrent_batches=params["concurrent_batches"],
        speculative_config=drafts
        and Speculative(
            method=drafts["method"],
            num_speculative_tokens=drafts["num_speculative_tokens"],
            disable_lookahead_block_hashes=drafts.get("disable_lookahead_block_hashes", False),
            disable_eagle_block_drop=drafts.get("disable_eagle_block_drop", False),
            draft_model_config=SimpleNamespace(
                hf_config=SimpleNamespace(num_nextn_predict_layers=drafts.get("mtp_modules", 1))
            ),
        ),
    )


def planned(case: dict[str, Any]) -> dict[str, Any]:
    params = case["params"]
    vllm = config(params)
    kinds = params["layers"]["kinds"]
    layers = {f"L{at:03}": layer(kinds[letter], params) for at, letter in enumerate(params["layers"]["order"])}
    groups = get_global_kv_cache_groups(vllm, [layers])
    [own] = get_kv_cache_configs(vllm, [layers], [case["available_bytes"]], groups)
    pages = [sorted({spec.page_size_bytes for spec in _each(g)}) for g in own.kv_cache_groups]
    scheduler = generate_scheduler_kv_cache_config([own])
    if scheduler.kv_cache_groups:  # as vLLM's core does before it starts its scheduler
        vllm.cache_config.block_size = min(group.kv_cache_spec.block_size for group in scheduler.kv_cache_groups)
    block, unit = resolve_kv_cache_block_sizes(scheduler, vllm)
    specs = [group.kv_cache_spec for group in scheduler.kv_cache_groups]
    dcp = params["dcp"]
    tokens, concurrency = get_kv_cache_capacity(vllm, scheduler)
    drafts = vllm.speculative_config
    return {
        "groups": [
            {
                "kind": KINDS[type(spec).__name__],
                "block_size": spec.block_size * (dcp if spec.dcp_sharded else 1),
                "layers": len(group.layer_names),
                "page_bytes": page,
                "spec_id": next(at for at, other in enumerate(specs) if other == spec),
                "eagle": bool(group.is_eagle_group),
                "window": getattr(spec, "sliding_window", None) if type(spec) is SlidingWindowSpec else None,
                "extra_retained": getattr(spec, "extra_retained_tokens", 0),
                "chunk": spec.attention_chunk_size if type(spec) is ChunkedLocalAttentionSpec else None,
            }
            for group, spec, page in zip(scheduler.kv_cache_groups, specs, pages, strict=True)
        ],
        "num_gpu_blocks": scheduler.num_blocks,
        "scheduler_block_size": block,
        "hash_block_size": unit,
        "hit_alignment": resolve_cache_hit_alignment_tokens(scheduler, vllm, block, unit),
        "num_lookahead_tokens": vllm.num_lookahead_tokens,
        "num_prefill_lookahead": vllm.num_prefill_lookahead_tokens,
        "num_hash_lookahead": vllm.num_hash_lookahead_tokens,
        "eagle_drop": bool(drafts and drafts.use_eagle_block_drop() and not vllm.num_hash_lookahead_tokens),
        "tokens": tokens,
        "max_concurrency": concurrency,
    }


def _each(group: Any) -> list[Any]:
    return list(iter_layer_specs(group.kv_cache_spec))


def main() -> None:
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        try:
            answer = planned(json.loads(line))
        except (ValueError, AssertionError, NotImplementedError, StopIteration) as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(answer), flush=True)


main()
