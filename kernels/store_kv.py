"""Write new tokens' keys and values into the blocks of a paged cache (torch)."""

from __future__ import annotations

import torch


def store_kv(
    k: torch.Tensor, v: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Put token t into slot `slot_mapping[t]` = block * P + offset; a slot of -1 is skipped.

    k, v: [T, Hkv, D]; k_cache, v_cache: [num_blocks, Hkv, P, D]; slot_mapping: int64[T]. Two tokens never share a slot.
    """
    keep = slot_mapping >= 0
    if not bool(keep.all()):
        k, v, slot_mapping = k[keep], v[keep], slot_mapping[keep]
    page = k_cache.shape[2]
    block = torch.div(slot_mapping, page, rounding_mode="floor")
    offset = slot_mapping - block * page
    # Two indices around a slice put the token first: [T, Hkv, D].
    k_cache[block, :, offset] = k.to(k_cache.dtype)
    v_cache[block, :, offset] = v.to(v_cache.dtype)
