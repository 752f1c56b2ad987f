"""Process a layer's projection for its attention: norm of the heads, rotation, and the store of keys and values (torch)."""

from __future__ import annotations

import torch

from kvtool.kernels.checks import check_projection
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.rms_norm import rms_norm
from kvtool.kernels.rotary import rotary
from kvtool.kernels.store_kv import store_kv


def rotary_store_kv(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: Scale = 1.0,
    v_scale: Scale = 1.0,
    *,
    qk_norm: torch.Tensor | None = None,
    eps: float = 0.0,
) -> torch.Tensor:
    """Return queries [T, Hq, D], rotated; keys, rotated, and values are put into the caches as `store_kv` does.

    qkv: [T, Hq + 2 * Hkv, D], queries first and values last, where Hkv is the caches'; cos, sin: [T, 1, D] as for `rotary`.
    qk_norm: [Hq + Hkv, D], weights of an RMS norm of each query's and key's head before it is rotated.
    """
    check_projection(qkv, k_cache, qk_norm)
    kv_heads = k_cache.shape[1]
    q_heads = qkv.shape[1] - 2 * kv_heads
    qk = qkv[:, :-kv_heads]
    if qk_norm is not None:
        qk = rms_norm(qk, qk_norm, eps)
    qk = rotary(qk, cos, sin)
    store_kv(qk[:, q_heads:], qkv[:, -kv_heads:], k_cache, v_cache, slot_mapping, k_scale, v_scale)
    return qk[:, :q_heads]
