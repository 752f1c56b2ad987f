"""vLLM's own shapes of states and its block that holds one, for cases from standard input: run with the Python of an environment
that has vLLM. No GPU is needed: the one question that is asked of an attention backend is answered here, multiples of 16.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator as Shapes
from vllm.platforms.interface import Platform
from vllm.v1.attention.backend import MultipleOf

TORCH = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Backend:
    @staticmethod
    def get_supported_kernel_block_sizes() -> list[Any]:
        return [MultipleOf(16)]

    @staticmethod
    def customize_spec(spec: Any) -> Any:
        return spec


def shapes(case: dict[str, Any]) -> Any:
    state, parts, drafts = case["state"], case["tensor_parallel"], case["drafts"]
    if case["kind"] == "mamba2":
        inner, heads, size, count, kernel, groups = state
        return Shapes.mamba2_state_shape(
            tp_world_size=parts,
            intermediate_size=inner,
            n_groups=groups,
            num_heads=heads,
            head_dim=size,
            state_size=count,
            conv_kernel=kernel,
            num_spec=drafts,
        )
    if case["kind"] == "delta":
        return Shapes.gated_delta_net_state_shape(parts, *state, drafts)
    heads, size, kernel = state
    return Shapes.kda_state_shape(parts, heads, size, conv_kernel_size=kernel, num_spec=drafts)


def answered(case: dict[str, Any]) -> dict[str, Any]:
    found = shapes(case)
    dtypes = tuple(TORCH[name] for name in case["dtypes"])
    model = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: found, get_mamba_state_dtype_from_config=lambda _: dtypes
    )
    heads = max(1, case["kv_heads"] // case["tensor_parallel"])
    cache = SimpleNamespace(
        cache_dtype=case["kv_cache_dtype"],
        block_size=case["block_size"] or 16,
        mamba_cache_mode="align",
        mamba_block_size=None,
        mamba_page_size_padded=None,
        kv_cache_dtype_skip_layers=[],
    )
    config = SimpleNamespace(
        cache_config=cache,
        parallel_config=None,
        model_config=SimpleNamespace(
            dtype=torch.bfloat16,
            use_mla=case["latent"],
            architecture="",
            get_num_kv_heads=lambda _: 1 if case["latent"] else heads,
            get_head_size=lambda: case["head_size"],
        ),
    )
    with (
        patch("vllm.model_executor.models.ModelRegistry.resolve_model_cls", return_value=(model, "")),
        patch("vllm.config.vllm.set_current_vllm_config", lambda _: nullcontext()),
        patch("vllm.model_executor.layers.mamba.abstract.get_mamba_prefill_checkpoint_alignment", return_value=1),
        patch.object(Platform, "_find_non_ssm_backends", return_value=[Backend]),
    ):
        Platform._align_hybrid_block_size(config, Backend)
    return {
        "shapes": [list(shape) for shape in found],
        "block_size": cache.block_size,
        "page": cache.mamba_page_size_padded,
    }


def main() -> None:
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        try:
            answer = answered(json.loads(line))
        except (ValueError, AssertionError) as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(answer), flush=True)


main()
