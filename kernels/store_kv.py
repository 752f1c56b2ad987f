"""Write new tokens' keys and values into the blocks of a paged cache (torch)."""

from __future__ import annotations

import torch

from kvtool.kernels.kv_quantization import Scale, dynamic_scale, quantized, storage_view


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: Scale = 1.0,
    v_scale: Scale = 1.0,
) -> None:
    """Put token t into slot `slot_mapping[t]` = block * P + offset; a slot of -1 is skipped.

    k, v: [T, Hkv, D]; k_cache, v_cache: [num_blocks, Hkv, P, D]; slot_mapping: int64[T]. Two tokens never share a slot.
    Quantized caches (`MAXIMA`) hold x / scale. A scale that is a tensor, f32[num_blocks, Hkv, P], is written as well: it gets each
    token's and head's own.
    """
    keep = slot_mapping >= 0
    if not bool(keep.all()):
        k, v, slot_mapping = k[keep], v[keep], slot_mapping[keep]
    page = k_cache.shape[2]
    block = torch.div(slot_mapping, page, rounding_mode="floor")
    offset = slot_mapping - block * page
    for x, cache, scale in ((k, k_cache, k_scale), (v, v_cache, v_scale)):
        if isinstance(scale, torch.Tensor):
            own = dynamic_scale(x, cache.dtype)  # [T, Hkv]
            scale[block, :, offset] = own
            scale = own[:, :, None]
        # Two indices around a slice put the token first: [T, Hkv, D].
        storage_view(cache)[block, :, offset] = storage_view(quantized(x, scale, cache.dtype))
