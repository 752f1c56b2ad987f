"""Write new tokens' keys and values into the blocks of a paged cache (torch)."""

from __future__ import annotations

import torch

from kvtool.kernels.checks import check_new_tokens
from kvtool.kernels.kv_quantization import MAXIMA, Scale, dynamic_scale, quantized, storage_view


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

    k, v: [T, Hkv, D]; k_cache, v_cache: [num_blocks, Hkv, P, D]; slot_mapping: int64[T]. Two tokens never share a slot. Quantized
    caches (`MAXIMA`) contain x / scale. A scale that is a tensor, f32[num_blocks, Hkv, P], is written as well: it gets each
    token's and head's own.
    """
    check_new_tokens(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale)
    if not len(k):
        return
    if int(slot_mapping.min()) < 0:
        keep = slot_mapping >= 0
        k, v, slot_mapping = k[keep], v[keep], slot_mapping[keep]
    page = k_cache.shape[2]
    in_a_row = _first_of_a_row(slot_mapping)
    block, offset = slot_mapping // page, slot_mapping % page
    for x, cache, scale in ((k, k_cache, k_scale), (v, v_cache, v_scale)):
        by_head = cache.transpose(0, 1)
        if in_a_row is not None and cache.dtype not in MAXIMA and by_head.is_contiguous():
            by_head.flatten(1, 2)[:, in_a_row : in_a_row + len(x)].copy_(x.transpose(0, 1))
            continue
        if isinstance(scale, torch.Tensor):
            own = dynamic_scale(x, cache.dtype)  # [T, Hkv]
            scale[block, :, offset] = own
            scale = own[:, :, None]
        # Two indices around a slice put the token first: [T, Hkv, D].
        storage_view(cache)[block, :, offset] = storage_view(quantized(x, scale, cache.dtype))


def _first_of_a_row(slots: torch.Tensor) -> int | None:
    """Return the first of slots on the CPU that follow each other, as those of a prompt's new blocks mostly do; else None."""
    if slots.device.type != "cpu" or not len(slots) or int(slots[-1]) - int(slots[0]) != len(slots) - 1:
        return None
    return int(slots[0]) if bool((slots.diff() == 1).all()) else None
