"""Merge the partial results of attention over disjoint sets of keys (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.checks import check_parts
from kvtool.kernels.gpu.launch_options import OPTIONS

_MOST_AT_ONCE = 1024  # numbers of partial rows that the 32 threads of a program load at once: 8 loads of 16 bytes each


def merge_states(
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    part_start: torch.Tensor,
    part_index: torch.Tensor,
    out_rows: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Run `kvtool.kernels.merge_states.merge_states` as one launch, one warp for each row and head."""
    check_parts(partial_out, partial_lse, part_start, part_index, out_rows, out)
    _, heads, dim = out.shape
    if not len(out_rows) or not heads or not dim:
        return
    width = triton.next_power_of_2(dim)
    _merge_states[(len(out_rows) * heads,)](
        partial_out,
        partial_lse,
        part_start,
        part_index,
        out_rows,
        out,
        *partial_out.stride()[:2],
        *partial_lse.stride(),
        *out.stride()[:2],
        HEADS=heads,
        D=dim,
        WIDTH=width,
        PARTS=min(8, max(1, _MOST_AT_ONCE // width)),
        num_warps=1,
        **OPTIONS,
    )


@triton.jit
def _merge_states(
    partial_out,  # f32[R, HEADS, D]
    partial_lse,  # f32[R, HEADS]
    part_start,  # int32[k + 1]
    part_index,
    out_rows,  # int32[k]
    out,  # [T, HEADS, D]
    partial_stride_row,
    partial_stride_head,
    lse_stride_row,
    lse_stride_head,
    out_stride_row,
    out_stride_head,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Merge one head of one row, PARTS parts at a time; a larger LSE rescales the sum so far (Milakov and Gimelshein, 2018)."""
    row = tl.program_id(0) // HEADS
    head = tl.program_id(0) % HEADS
    start = tl.load(part_start + row)
    end = tl.load(part_start + row + 1)
    if start == end:
        return
    dims = tl.arange(0, WIDTH)
    partial_out += head * partial_stride_head
    partial_lse += head * lse_stride_head
    most = -float("inf")
    total = 0.0
    merged = tl.zeros([WIDTH], tl.float32)
    while start < end:
        part = start + tl.arange(0, PARTS)
        real = part < end
        index = tl.load(part_index + part, mask=real, other=0).to(tl.int64)
        lse = tl.load(partial_lse + index * lse_stride_row, mask=real, other=-float("inf"))
        inside = real[:, None]
        if D != WIDTH:
            inside = inside & (dims < D)[None, :]
        rows = partial_out + index * partial_stride_row
        values = tl.load(rows[:, None] + dims[None, :], mask=inside, other=0.0)
        most_now = tl.maximum(most, tl.max(lse, 0))
        shift = tl.where(most_now == -float("inf"), 0.0, most_now)  # as long as no part counts
        weight = tl.exp2(lse - shift)
        decay = tl.exp2(most - shift)
        total = total * decay + tl.sum(weight, 0)
        weighted = tl.where((weight == 0.0)[:, None], 0.0, values * weight[:, None])
        merged = merged * decay + tl.sum(weighted, 0)
        most = most_now
        start += PARTS
    merged = merged / tl.where(total == 0.0, 1.0, total)
    to = out + tl.load(out_rows + row).to(tl.int64) * out_stride_row + head * out_stride_head + dims
    tl.store(to, merged.to(out.dtype.element_ty), mask=dims < D)
