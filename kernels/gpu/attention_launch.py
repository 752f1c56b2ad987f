"""Launch parameters of the two attention kernels, derived from the queries, the caches and their scales."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl

from kvtool.kernels.gpu.tiles import Target, width
from kvtool.kernels.kv_quantization import MAXIMA, Scale

_LOG2_E = math.log2(math.e)
_WIDEST_HEAD = 256
"""The widest head, in numbers, for which there are tiles."""
_COMPUTE = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


@dataclass(frozen=True, slots=True)
class AttentionLaunch:
    """Arguments of a launch, made from checked tensors."""

    kv_heads: int
    group: int
    k_scale: torch.Tensor | None
    v_scale: torch.Tensor | None
    factor: float  # from q.k as stored to scores in base 2
    v_factor: float  # from values as stored to values, where that is one number
    strides: tuple[int, ...]  # of the caches' and the scales' blocks, heads and slots
    constants: dict[str, Any]

    @property
    def scaled(self) -> bool:
        """Return whether tokens have scales of their own."""
        return self.k_scale is not None or self.v_scale is not None

    @classmethod
    def of(
        cls,
        target: Target,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        scale: float | None,
        k_scale: Scale,
        v_scale: Scale,
    ) -> AttentionLaunch:
        """Return the launch's parameters; ValueError if the target cannot read the caches."""
        target.check_cache(k_cache.dtype)
        if q.shape[2] > _WIDEST_HEAD:
            raise ValueError(f"heads have at most {_WIDEST_HEAD} numbers, not {q.shape[2]}")
        quantized = k_cache.dtype in MAXIMA
        kv_heads, page, head_dim = k_cache.shape[1:]
        factor = _LOG2_E * (head_dim**-0.5 if scale is None else scale)
        v_factor = 1.0
        if quantized:
            factor *= 1.0 if isinstance(k_scale, torch.Tensor) else k_scale
            v_factor = 1.0 if isinstance(v_scale, torch.Tensor) else v_scale
        k_scales = k_scale if quantized and isinstance(k_scale, torch.Tensor) else None
        v_scales = v_scale if quantized and isinstance(v_scale, torch.Tensor) else None
        # fp16 represents every 8-bit number, and is more exact than bf16 for the probabilities.
        compute = torch.float16 if quantized and q.dtype != torch.float32 else q.dtype
        return cls(
            kv_heads=kv_heads,
            group=q.shape[1] // kv_heads,
            k_scale=k_scales,
            v_scale=v_scales,
            factor=factor,
            v_factor=v_factor,
            strides=(
                *k_cache.stride()[:3],
                *v_cache.stride()[:3],
                *((0, 0) if k_scales is None else k_scales.stride()[:2]),
                *((0, 0) if v_scales is None else v_scales.stride()[:2]),
            ),
            constants={
                "KV_HEADS": kv_heads,
                "GROUP": q.shape[1] // kv_heads,
                "D": head_dim,
                "WIDTH": width(head_dim),
                "PAGE": page,
                "COMPUTE": _COMPUTE[compute],
                "K_SCALED": k_scales is not None,
                "V_SCALED": v_scales is not None,
            },
        )
