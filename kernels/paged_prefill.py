"""Causal attention of tiles of queries over parts of their sequences' paged K/V (torch)."""

from __future__ import annotations

import torch

from kvtool.kernels.checks import check_devices, check_heads, check_indices, check_range, check_shape, check_type
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.partial_attention import attend_part, check_attention, read_tokens


def paged_prefill(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    tiles: torch.Tensor,
    tile_queries: int,
    out: torch.Tensor,
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    scale: float | None = None,
    k_scale: Scale = 1.0,
    v_scale: Scale = 1.0,
) -> None:
    """Compute prefill, chunked or not, also after a cached prefix: sequence r's queries are its last tokens, all in the cache.

    Sequence r has the queries [query_start[r], query_start[r + 1]) of q [T, Hq, D] and seq_lens[r] tokens, in the blocks
    block_table[r] of the caches [NB, Hkv, P, D]. Tile (request, first, kv_from, kv_to, part) of tiles int32[m, 5] has the queries
    [first, first + tile_queries) of the request, as far as they exist, each over the tokens [kv_from, kv_to) of its sequence
    up to its own; kv_from is a multiple of P. Part -1: results are final and go to out [T, Hq, D], q's type. Others go to the
    rows part, part + 1, ... of partial_out f32[R, Hq, D] and partial_lse f32[R, Hq], as in `paged_decode`: 0 and -inf for a query
    that sees nothing. A tile of request -1 does nothing.

    block_table int32[n, W], query_start int32[n + 1], seq_lens int32[n]; caches of any type: unquantized ones are read as q's;
    `scale` is 1/sqrt(D) unless given. ValueError if these do not go together.
    """
    check_prefill(
        q,
        k_cache,
        v_cache,
        block_table,
        query_start,
        seq_lens,
        tiles,
        tile_queries,
        out,
        partial_out,
        partial_lse,
        scale,
        k_scale,
        v_scale,
    )
    starts, lengths = query_start.tolist(), seq_lens.tolist()
    page = k_cache.shape[2]
    for request, first, kv_from, kv_to, part in tiles.tolist():
        if request < 0:
            continue
        count = starts[request + 1] - starts[request]
        last = min(first + tile_queries, count)
        before = lengths[request] - count
        length = max(min(kv_to, before + last) - kv_from, 0)
        blocks = block_table[request, kv_from // page :]
        k = read_tokens(k_cache, k_scale, blocks, length, q.dtype)
        v = read_tokens(v_cache, v_scale, blocks, length, q.dtype)
        position = before + torch.arange(first, last, device=q.device)
        visible = kv_from + torch.arange(length, device=q.device) <= position[:, None]
        rows = slice(starts[request] + first, starts[request] + last)
        result, lse = attend_part(q[rows], k, v, scale, visible)
        if part < 0:
            out[rows] = result.to(out.dtype)
        else:
            parts = slice(part, part + last - first)
            partial_out[parts], partial_lse[parts] = result, lse


def check_prefill(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    tiles: torch.Tensor,
    tile_queries: int,
    out: torch.Tensor,
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    scale: float | None,
    k_scale: Scale,
    v_scale: Scale,
) -> None:
    """Raise ValueError unless the arguments of `paged_prefill` go together; the values of index tensors are checked on the CPU
    only."""
    check_attention(q, k_cache, v_cache, partial_out, partial_lse, scale, k_scale, v_scale)
    check_type("out", out, q.dtype)
    check_shape("out", out, *q.shape)
    check_heads("out", out, written=True)
    check_devices(q=q, block_table=block_table, query_start=query_start, seq_lens=seq_lens, tiles=tiles, out=out)
    check_indices("seq_lens", seq_lens, None)
    check_indices("query_start", query_start, len(seq_lens) + 1)
    check_indices("block_table", block_table, len(seq_lens), None)
    check_indices("tiles", tiles, None, 5)
    if tile_queries < 1:
        raise ValueError(f"tile_queries must be at least 1, not {tile_queries}")
    if tiles.device.type != "cpu":
        return
    check_range("request of tiles", tiles[:, 0], -1, len(seq_lens))
    request, first, kv_from, kv_to, part = tiles[tiles[:, 0] >= 0].long().unbind(1)
    check_range("query_start", query_start, 0, len(q) + 1)
    counts, lengths = query_start.long().diff()[request], seq_lens[request].long()
    _check_under("first query of a tile", first, counts)
    _check_under("number of a request's queries", counts, lengths + 1)
    _check_under("kv_to of a tile", kv_to, lengths + 1)
    _check_under("kv_from of a tile", kv_from, kv_to + 1)
    page = k_cache.shape[2]
    if bool((kv_from % page).any()):
        odd = int(kv_from[kv_from % page > 0][0])
        raise ValueError(f"kv_from of a tile is {odd}, which is not at the start of a block of {page} tokens")
    blocks = -(-kv_to // page)
    _check_under("number of blocks up to kv_to", blocks, torch.full_like(blocks, block_table.shape[1] + 1))
    used = torch.arange(block_table.shape[1]) < blocks[:, None]
    check_range("block_table", block_table[request][used], 0, len(k_cache))
    rows = torch.minimum(first + tile_queries, counts) - first
    check_range("part of tiles", part, -1, len(partial_out) + 1)
    check_range("part + number of queries of a tile", (part + rows)[part >= 0], 0, len(partial_out) + 1)


def _check_under(name: str, x: torch.Tensor, high: torch.Tensor) -> None:
    """Check that each number is in [0, its own high)."""
    wrong = (x < 0) | (x >= high)
    if bool(wrong.any()):
        raise ValueError(f"{name} is {int(x[wrong][0])}, which is not in [0, {int(high[wrong][0])})")
