"""Layers of cases as vLLM's own specs: for the programs beside this one, which vLLM's Python runs."""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)


def layer(spec: dict[str, Any], params: dict[str, Any]) -> Any:
    """A layer of a case, as vLLM has it."""
    block, kind = spec.get("block_size", params["block_size"]), spec["kind"]
    draft = {"is_draft": spec.get("draft", False)} if hasattr(MambaSpec, "is_draft") else {}  # since vLLM 0.33
    if kind == "mamba":
        drafts = params["spec"]
        return MambaSpec(
            block_size=block,
            shapes=tuple(tuple(shape) for shape in spec["shapes"]),
            dtypes=tuple(getattr(torch, name) for name in spec["dtypes"]),
            page_size_padded=spec.get("page_size_padded"),
            mamba_cache_mode="align" if params["enable_prefix_caching"] else "none",
            num_speculative_blocks=drafts["num_speculative_tokens"] if drafts else 0,
            num_prefill_checkpoint_blocks=spec.get("num_prefill_checkpoint_blocks", 0),
            prefill_checkpoint_alignment=spec.get("prefill_checkpoint_alignment"),
            **draft,
        )
    dtype = spec.get("dtype", "bfloat16")
    common = {
        "block_size": block,
        **draft,
        "num_kv_heads": spec.get("kv_heads", 1),
        "head_size": spec["head_size"],
        "page_size_padded": spec.get("page_size_padded"),
        "dtype": torch.uint8 if dtype == "fp8" else getattr(torch, dtype),
        "dcp_sharded": spec.get("dcp_sharded", True),
    }
    if "head_size_v" in spec:
        common["head_size_v"] = spec["head_size_v"]
    if kind == "full":
        return FullAttentionSpec(**common)
    if kind == "mla":
        return MLAAttentionSpec(**common)
    if kind == "sliding":
        return SlidingWindowSpec(**common, sliding_window=spec["window"])
    return ChunkedLocalAttentionSpec(**common, attention_chunk_size=spec["chunk"])
