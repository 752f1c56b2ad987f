"""Attention over a part of a sequence, with the sums needed to join parts (torch); shared by prefill and decode."""

from __future__ import annotations

import math

import torch

from kvtool.kernels.attention_rule import capped
from kvtool.kernels.checks import (
    check_caches,
    check_devices,
    check_heads,
    check_queries,
    check_rows,
    check_shape,
    check_type,
)
from kvtool.kernels.kv_quantization import MAXIMA, Scale, dequantized, storage_view

_LOG2_E = math.log2(math.e)


def check_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    scale: float | None,
    k_scale: Scale,
    v_scale: Scale,
) -> None:
    """Check q [T, Hq, D], caches [NB, Hkv, P, D], partial_out f32[R, Hq, D], partial_lse f32[R, Hq]; scales are above 0."""
    check_caches(k_cache, v_cache, k_scale, v_scale)
    check_queries(q, k_cache)
    check_type("partial_out", partial_out, torch.float32)
    check_shape("partial_out", partial_out, None, *q.shape[1:])
    check_heads("partial_out", partial_out, written=True)
    check_type("partial_lse", partial_lse, torch.float32)
    check_shape("partial_lse", partial_lse, *partial_out.shape[:2])
    check_heads("partial_lse", partial_lse, written=True)
    check_devices(
        q=q,
        k_cache=k_cache,
        v_cache=v_cache,
        partial_out=partial_out,
        partial_lse=partial_lse,
        k_scale=k_scale,
        v_scale=v_scale,
    )
    for name, number in (("scale", scale), ("k_scale", k_scale), ("v_scale", v_scale)):
        if isinstance(number, torch.Tensor):
            check_rows(name, number)
        elif number is not None and not 0 < number < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, not {number}")


def read_tokens(
    cache: torch.Tensor, scale: Scale, blocks: torch.Tensor, length: int, dtype: torch.dtype
) -> torch.Tensor:
    """Return f32[Hkv, length, D]: the first tokens of blocks i32[at least ceil(length / P)], as `dtype` reads them."""
    page = cache.shape[2]
    blocks = blocks[: -(-length // page)].long()
    stored = storage_view(cache)[blocks].view(cache.dtype).transpose(0, 1).flatten(1, 2)[:, :length]
    if cache.dtype not in MAXIMA:
        return stored.to(dtype).to(torch.float32)
    if isinstance(scale, torch.Tensor):
        scale = scale[blocks].transpose(0, 1).flatten(1, 2)[:, :length, None]
    return dequantized(stored, scale, torch.float32)


def attend_part(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None,
    visible: torch.Tensor | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return output f32[n, Hq, D] and the base-2 logarithm of the sum f32[n, Hq] of q [n, Hq, D] over k, v f32[Hkv, length, D].

    `visible` bool[n, length] marks the tokens that each query sees; None: all. Queries that see nothing get 0 and -inf.
    """
    count, heads, dim = q.shape
    kv_heads = len(k)
    rows = q.to(torch.float32).view(count, kv_heads, heads // kv_heads, dim).permute(1, 2, 0, 3)  # [Hkv, group, n, D]
    factor = dim**-0.5 if scale is None else scale
    if softcap is None:
        scores = rows @ k[:, None].mT * (factor * _LOG2_E)  # [Hkv, group, n, length]
    else:
        scores = capped(rows @ k[:, None].mT * factor, softcap) * _LOG2_E
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    top = scores.amax(dim=-1, keepdim=True) if len(k[0]) else scores.new_full((*scores.shape[:3], 1), -math.inf)
    weights = torch.exp2(scores - top.clamp(min=torch.finfo(torch.float32).min))
    total = weights.sum(dim=-1, keepdim=True)
    out = (weights @ v[:, None]) / total.masked_fill(total == 0, 1)
    lse = (top + total.log2()).squeeze(-1)
    return out.permute(2, 0, 1, 3).reshape(count, heads, dim), lse.permute(2, 0, 1).reshape(count, heads)
