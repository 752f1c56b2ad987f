"""Causal attention of tiles of queries over parts of their sequences' paged K/V (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.gpu.attend import attend
from kvtool.kernels.gpu.attention_launch import AttentionLaunch
from kvtool.kernels.gpu.launch_options import OPTIONS
from kvtool.kernels.gpu.tiles import current_target, prefill_rows, prefill_tile
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.paged_prefill import check_prefill


def prefill_queries(q_dtype: torch.dtype, group: int, head_dim: int, cache_dtype: torch.dtype) -> int:
    """Return the queries with which a tile is full on the current target: its rows are queries times the heads of a group."""
    return max(1, prefill_rows(current_target(), head_dim, cache_dtype.itemsize, q_dtype.itemsize) // group)


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
    """Run `kvtool.kernels.paged_prefill.paged_prefill` as one launch, one program for each tile and K/V head.

    Tiles start in their order: the longest should come first. `prefill_queries` is the best number of queries for the target; with
    more, a tile takes several programs. Only the last dimension of q, out, the caches and partial_out has to be contiguous.
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
    if not len(tiles):
        return
    target = current_target()
    launch = AttentionLaunch.of(target, q, k_cache, v_cache, scale, k_scale, v_scale)
    rows = tile_queries * launch.group
    tile = prefill_tile(target, rows, q.shape[2], k_cache.element_size(), q.element_size(), scaled=launch.scaled)
    row_tiles = triton.cdiv(rows, tile.rows)
    _paged_prefill[(len(tiles) * launch.kv_heads * row_tiles,)](
        q,
        k_cache,
        v_cache,
        launch.k_scale,
        launch.v_scale,
        block_table,
        query_start,
        seq_lens,
        tiles,
        out,
        partial_out,
        partial_lse,
        tile_queries,
        launch.factor,
        launch.v_factor,
        block_table.stride(0),
        *q.stride()[:2],
        *launch.strides,
        *out.stride()[:2],
        *partial_out.stride()[:2],
        *partial_lse.stride(),
        **launch.constants,
        ROW_TILES=row_tiles,
        ROWS=tile.rows,
        TOKENS=tile.tokens,
        STAGES=tile.stages,
        num_warps=tile.warps,
        **OPTIONS,
    )


@triton.jit(  # one kernel, wherever in larger buffers the index tensors begin
    do_not_specialize=["tile_queries", "table_stride"],
    do_not_specialize_on_alignment=["block_table", "query_start", "seq_lens", "tiles", "partial_lse"],
)
def _paged_prefill(
    q,  # [T, Hq, D]
    k_cache,  # [NB, Hkv, PAGE, D]
    v_cache,
    k_scale,  # f32[NB, Hkv, PAGE], or None
    v_scale,
    block_table,  # int32[n, W]
    query_start,  # int32[n + 1]
    seq_lens,  # int32[n]
    tiles,  # int32[m, 5]: request, first, kv_from, kv_to, part
    out,  # [T, Hq, D]
    partial_out,  # f32[R, Hq, D]
    partial_lse,  # f32[R, Hq]
    tile_queries,
    factor,
    v_factor,
    table_stride,
    q_stride_token,
    q_stride_head,
    k_stride_block,
    k_stride_head,
    k_stride_slot,
    v_stride_block,
    v_stride_head,
    v_stride_slot,
    k_scale_stride_block,
    k_scale_stride_head,
    v_scale_stride_block,
    v_scale_stride_head,
    out_stride_token,
    out_stride_head,
    partial_stride_row,
    partial_stride_head,
    lse_stride_row,
    lse_stride_head,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    COMPUTE: tl.constexpr,
    K_SCALED: tl.constexpr,
    V_SCALED: tl.constexpr,
    ROW_TILES: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute ROWS rows of one tile for one K/V head: row r is query first + r // GROUP of the request and head r % GROUP of the
    group."""
    program = tl.program_id(0)
    tile = tiles + program // (KV_HEADS * ROW_TILES) * 5
    kv_head = program // ROW_TILES % KV_HEADS
    first_row = program % ROW_TILES * ROWS
    request = tl.load(tile)
    if request < 0:
        return
    first = tl.load(tile + 1)
    start_of_request = tl.load(query_start + request)
    count = tl.load(query_start + request + 1) - start_of_request
    past = tl.minimum(first + tile_queries, count)  # the first query after the tile's
    first_query = first + first_row // GROUP
    if first_query >= past:
        return
    kv_from = tl.load(tile + 2)
    kv_to = tl.load(tile + 3)
    part = tl.load(tile + 4)
    before = tl.load(seq_lens + request) - count
    table = block_table + request.to(tl.int64) * table_stride

    rows = first_row + tl.arange(0, ROWS)
    dims = tl.arange(0, WIDTH)
    query = first + rows // GROUP
    head = kv_head * GROUP + rows % GROUP
    real = query < past
    wanted = real[:, None] & (dims < D)[None, :]
    token = (start_of_request + query).to(tl.int64)
    q_rows = q + token * q_stride_token + head * q_stride_head
    queries = tl.load(q_rows[:, None] + dims[None, :], mask=wanted, other=0.0).to(COMPUTE)

    end = tl.minimum(kv_to, before + tl.minimum(past, first + (first_row + ROWS - 1) // GROUP + 1))
    seen_by_all = tl.maximum(tl.minimum(end, before + first_query + 1) - kv_from, 0)
    output, lse = attend(
        queries, table, kv_from, kv_from + seen_by_all // TOKENS * TOKENS, end, before + query, kv_head, factor, v_factor,
        k_cache, v_cache, k_scale, v_scale, k_stride_block, k_stride_head, k_stride_slot,
        v_stride_block, v_stride_head, v_stride_slot,
        k_scale_stride_block, k_scale_stride_head, v_scale_stride_block, v_scale_stride_head,
        D, WIDTH, PAGE, COMPUTE, K_SCALED, V_SCALED, ROWS, TOKENS, STAGES,
    )  # fmt: skip
    if part < 0:
        out_rows = out + token * out_stride_token + head * out_stride_head
        tl.store(out_rows[:, None] + dims[None, :], output.to(out.dtype.element_ty), mask=wanted)
    else:
        row = (part + query - first).to(tl.int64)
        partial_rows = partial_out + row * partial_stride_row + head * partial_stride_head
        tl.store(partial_rows[:, None] + dims[None, :], output, mask=wanted)
        tl.store(partial_lse + row * lse_stride_row + head * lse_stride_head, lse, mask=real)
