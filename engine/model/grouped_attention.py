"""Before and after a layer's attention where heads share keys and values in groups."""

from __future__ import annotations

from typing import Protocol

import torch

from kvtool.engine.model.layer_weights import GroupedWeights
from kvtool.engine.model.products import make_product
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.protocol import Kernels


class Attention(Protocol):
    """Projections of a layer; the plan computes attention between them."""

    def queries(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
        k_scale: Scale,
        v_scale: Scale,
    ) -> torch.Tensor:
        """Store the K/V of x [T, hidden] in the cache and return its queries [T, Hq, D]."""
        ...

    def output(self, attended: torch.Tensor) -> torch.Tensor:
        """Return [T, hidden] for attention's result [T, Hq, D]."""
        ...


class GroupedAttention:
    """Queries, keys and values in one product, which one kernel norms, rotates and stores."""

    def __init__(self, weights: GroupedWeights, head_dim: int, eps: float, kernels: Kernels) -> None:
        self._qkv = make_product(weights.qkv, weights.qkv_bias)
        self._output = make_product(weights.output, weights.output_bias)
        self._qk_norm = weights.qk_norm
        self._head_dim = head_dim
        self._eps = eps
        self._kernels = kernels

    def queries(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
        k_scale: Scale,
        v_scale: Scale,
    ) -> torch.Tensor:
        qkv = self._qkv.product(x).view(len(x), -1, self._head_dim)
        return self._kernels.rotary_store_kv(
            qkv, cos, sin, k_cache, v_cache, slot_mapping, k_scale, v_scale, qk_norm=self._qk_norm, eps=self._eps
        )

    def output(self, attended: torch.Tensor) -> torch.Tensor:
        return self._output.product(attended.flatten(1))
