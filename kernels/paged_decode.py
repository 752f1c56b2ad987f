"""Attention of single queries, and of queries that share tokens, over paged K/V (torch)."""

from __future__ import annotations

import torch

from kvtool.kernels.checks import check_devices, check_indices, check_range
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.partial_attention import attend_part, check_attention, read_tokens


def paged_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    items: torch.Tensor,
    query_index: torch.Tensor,
    block_index: torch.Tensor,
    most_queries: int,
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    scale: float | None = None,
    k_scale: Scale = 1.0,
    v_scale: Scale = 1.0,
) -> None:
    """Work items: queries that each read the same tokens, which ChunkAttention (Ye et al. 2024) does for a shared prefix.

    Item (q_off, q_len, blk_off, kv_len) of items int32[n, 4] has the queries query_index[q_off : q_off + q_len], at most
    `most_queries`, each over the first kv_len tokens of the blocks block_index[blk_off : blk_off + ceil(kv_len / P)]. Results go to
    the rows q_off ... of partial_out f32[R, Hq, D] and partial_lse f32[R, Hq]: attention over these tokens alone, and the base-2
    logarithm of the sum of its weights 2^(log2(e) * scale * q.k), for `merge_states`. An item with kv_len = 0 writes nothing.

    q [T, Hq, D]; caches [NB, Hkv, P, D], of any type: unquantized ones are read as q's type. query_index and block_index are int32;
    `scale` is 1/sqrt(D) unless given. ValueError where these do not go together.
    """
    check_decode(
        q,
        k_cache,
        v_cache,
        items,
        query_index,
        block_index,
        most_queries,
        partial_out,
        partial_lse,
        scale,
        k_scale,
        v_scale,
    )
    for q_off, q_len, blk_off, kv_len in items.tolist():
        if not kv_len:
            continue
        blocks = block_index[blk_off:]
        k = read_tokens(k_cache, k_scale, blocks, kv_len, q.dtype)
        v = read_tokens(v_cache, v_scale, blocks, kv_len, q.dtype)
        rows = slice(q_off, q_off + q_len)
        partial_out[rows], partial_lse[rows] = attend_part(q[query_index[rows].long()], k, v, scale)


def check_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    items: torch.Tensor,
    query_index: torch.Tensor,
    block_index: torch.Tensor,
    most_queries: int,
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    scale: float | None,
    k_scale: Scale,
    v_scale: Scale,
) -> None:
    """Raise ValueError unless the arguments of `paged_decode` go together; the values of items are checked on the CPU only."""
    check_attention(q, k_cache, v_cache, partial_out, partial_lse, scale, k_scale, v_scale)
    check_indices("items", items, None, 4)
    check_indices("query_index", query_index, None)
    check_indices("block_index", block_index, None)
    check_devices(q=q, items=items, query_index=query_index, block_index=block_index)
    if not 1 <= most_queries <= max(len(query_index), 1):
        raise ValueError(f"most_queries must be from 1 to the {len(query_index)} of query_index, not {most_queries}")
    if items.device.type != "cpu":
        return
    check_range("kv_len of items", items[:, 3], 0, 2**31)
    q_off, q_len, blk_off, kv_len = items[items[:, 3] > 0].long().unbind(1)
    blocks = -(-kv_len // k_cache.shape[2])
    check_range("q_len of items", q_len, 0, most_queries + 1)
    check_range("q_off of items", q_off, 0, len(query_index) + 1)
    check_range("q_off + q_len of items", q_off + q_len, 0, min(len(query_index), len(partial_out)) + 1)
    check_range("blk_off of items", blk_off, 0, len(block_index) + 1)
    check_range("blk_off + ceil(kv_len / P) of items", blk_off + blocks, 0, len(block_index) + 1)
    check_range("query_index", query_index[_members(q_off, q_len)], 0, len(q))
    check_range("block_index", block_index[_members(blk_off, blocks)], 0, len(k_cache))


def _members(first: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Return first[0] ... first[0] + count[0] - 1, then those of the next."""
    position = torch.arange(int(count.sum()))
    return position + torch.repeat_interleave(first - count.cumsum(0) + count, count)
