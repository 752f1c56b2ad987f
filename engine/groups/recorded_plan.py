"""Read a model's layers and options from recorded workloads and sizes of vLLM, as the planner takes them."""

from __future__ import annotations

from typing import Any

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.layer_spec import AttentionLayer, LayerSpec, MambaLayer
from kvtool.engine.groups.planner import PlanOptions, Speculation
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.engine.vllm_release import LATEST_RELEASE

Params = dict[str, Any]

_LAYER = {"kind", "draft", "block_size", "page_size_padded"}
_ATTENTION = _LAYER | {"kv_heads", "head_size", "dtype", "dcp_sharded"}
_FIELDS = {
    "full": _ATTENTION | {"head_size_v"},
    "mla": _ATTENTION,
    "sliding": _ATTENTION | {"head_size_v", "window"},
    "chunked": _ATTENTION | {"head_size_v", "chunk"},
    "mamba": _LAYER | {"shapes", "dtypes", "num_prefill_checkpoint_blocks", "prefill_checkpoint_alignment"},
}
"""Known fields of each kind of layer; another field is refused, because it may change the plan."""


def recorded_layers(params: Params) -> list[LayerSpec]:
    """Return a layer for each letter of `order`."""
    described = params["layers"]
    kinds = {letter: _layer(spec, params["block_size"]) for letter, spec in described["kinds"].items()}
    return [kinds[letter] for letter in described["order"]]


def recorded_options(params: Params) -> PlanOptions:
    """Return the options that shape the KV cache."""
    drafts = params["spec"]
    return PlanOptions(
        block_size=params["block_size"],
        enable_prefix_caching=params["enable_prefix_caching"],
        prefix_match_unit=params["prefix_match_unit"],
        disable_hybrid_kv_cache_manager=params["disable_hybrid_kv_cache_manager"],
        kv_cache_layout=params["kv_cache_layout"],
        decode_context_parallel_size=params["dcp"],
        max_num_batched_tokens=params["max_num_batched_tokens"],
        concurrent_batches=params.get("concurrent_batches", 1),
        release=params.get("release", LATEST_RELEASE),
        speculation=drafts
        and Speculation(
            method=drafts["method"],
            tokens=drafts["num_speculative_tokens"],
            modules=drafts.get("mtp_modules", 1),
            disable_lookahead_block_hashes=drafts.get("disable_lookahead_block_hashes", False),
            disable_eagle_block_drop=drafts.get("disable_eagle_block_drop", False),
        ),
    )


def _layer(spec: Params, block_size: int) -> LayerSpec:
    kind = spec["kind"]
    if kind not in _FIELDS:
        raise EngineError(f"unknown kind of layer {kind!r}")
    if unknown := sorted(spec.keys() - _FIELDS[kind]):
        raise EngineError(f"unknown field {unknown[0]!r} of a {kind} layer")
    common: dict[str, Any] = {
        "block_size": spec.get("block_size", block_size),
        "page_padded": spec.get("page_size_padded"),
        "draft": spec.get("draft", False),
    }
    if kind == "mamba":
        dtypes = map(find_kv_dtype, spec["dtypes"])
        return MambaLayer(
            **common,
            states=tuple((tuple(shape), dtype) for shape, dtype in zip(spec["shapes"], dtypes, strict=True)),
            ckpt_blocks=spec.get("num_prefill_checkpoint_blocks", 0),
            ckpt_align=spec.get("prefill_checkpoint_alignment"),
        )
    head_size: int = spec["head_size"]
    value_size: int = spec.get("head_size_v", head_size)
    return AttentionLayer(
        **common,
        kind=kind,
        kv_heads=spec.get("kv_heads", 1),
        head_size=head_size,
        value_size=0 if kind == "mla" else value_size,
        dtype=find_kv_dtype(spec.get("dtype", "bf16")),
        window=spec["window"] if kind == "sliding" else None,
        chunk=spec["chunk"] if kind == "chunked" else None,
        replicated=spec.get("dcp_sharded") is False,
    )
