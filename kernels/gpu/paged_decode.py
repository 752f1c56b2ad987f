"""Attention of single queries, and of queries that share tokens, over paged K/V (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.gpu.attend import attend
from kvtool.kernels.gpu.attention_launch import AttentionLaunch
from kvtool.kernels.gpu.launch_options import OPTIONS
from kvtool.kernels.gpu.tiles import current_target, decode_tile
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.paged_decode import check_decode


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
    """Run `kvtool.kernels.paged_decode.paged_decode` as one launch, one program for each item and K/V head.

    Items start in their order: the longest should come first. Items larger than a tile (at most 128 rows of queries times heads of
    a group) take several programs. Only the last dimension of q, the caches and partial_out has to be contiguous.
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
    if not len(items):
        return
    target = current_target()
    launch = AttentionLaunch.of(target, q, k_cache, v_cache, scale, k_scale, v_scale)
    rows = most_queries * launch.group
    tile = decode_tile(target, rows, q.shape[2], k_cache.element_size(), q.element_size(), scaled=launch.scaled)
    row_tiles = triton.cdiv(rows, tile.rows)
    _paged_decode[(len(items) * launch.kv_heads * row_tiles,)](
        q,
        k_cache,
        v_cache,
        launch.k_scale,
        launch.v_scale,
        items,
        query_index,
        block_index,
        partial_out,
        partial_lse,
        launch.factor,
        launch.v_factor,
        *q.stride()[:2],
        *launch.strides,
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
    do_not_specialize_on_alignment=["items", "query_index", "block_index", "partial_lse"]
)
def _paged_decode(
    q,  # [T, Hq, D]
    k_cache,  # [NB, Hkv, PAGE, D]
    v_cache,
    k_scale,  # f32[NB, Hkv, PAGE], or None
    v_scale,
    items,  # int32[n, 4]: q_off, q_len, blk_off, kv_len
    query_index,
    block_index,
    partial_out,  # f32[R, Hq, D]
    partial_lse,  # f32[R, Hq]
    factor,
    v_factor,
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
    out_stride_row,
    out_stride_head,
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
    """Compute ROWS rows of one item for one K/V head: row r is query r // GROUP of the item and head r % GROUP of the group."""
    program = tl.program_id(0)
    item = items + program // (KV_HEADS * ROW_TILES) * 4
    kv_head = program // ROW_TILES % KV_HEADS
    first_row = program % ROW_TILES * ROWS
    q_len = tl.load(item + 1)
    kv_len = tl.load(item + 3)
    if kv_len == 0 or first_row >= q_len * GROUP:
        return
    q_off = tl.load(item)
    table = block_index + tl.load(item + 2)

    rows = first_row + tl.arange(0, ROWS)
    dims = tl.arange(0, WIDTH)
    query = rows // GROUP
    head = kv_head * GROUP + rows % GROUP
    real = query < q_len
    wanted = real[:, None] & (dims < D)[None, :]
    token = tl.load(query_index + q_off + query, mask=real, other=0).to(tl.int64)
    q_rows = q + token * q_stride_token + head * q_stride_head
    queries = tl.load(q_rows[:, None] + dims[None, :], mask=wanted, other=0.0).to(COMPUTE)

    last = tl.zeros([ROWS], tl.int32) + (kv_len - 1)
    out, lse = attend(
        queries, table, 0, kv_len // TOKENS * TOKENS, kv_len, last, kv_head, factor, v_factor,
        k_cache, v_cache, k_scale, v_scale, k_stride_block, k_stride_head, k_stride_slot,
        v_stride_block, v_stride_head, v_stride_slot,
        k_scale_stride_block, k_scale_stride_head, v_scale_stride_block, v_scale_stride_head,
        D, WIDTH, PAGE, COMPUTE, K_SCALED, V_SCALED, ROWS, TOKENS, STAGES,
    )  # fmt: skip
    row = (q_off + query).to(tl.int64)
    out_rows = partial_out + row * out_stride_row + head * out_stride_head
    tl.store(out_rows[:, None] + dims[None, :], out, mask=wanted)
    tl.store(partial_lse + row * lse_stride_row + head * lse_stride_head, lse, mask=real)
