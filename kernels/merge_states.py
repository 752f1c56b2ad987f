"""Merge the partial results of attention over disjoint sets of keys (torch)."""

from __future__ import annotations

import torch

from kvtool.kernels.checks import check_parts


def merge_states(
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    part_start: torch.Tensor,
    part_index: torch.Tensor,
    out_rows: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Write into row out_rows[i] of out [T, Hq, D] the merge of the partial rows part_index[part_start[i] : part_start[i + 1]].

    partial_out: f32[R, Hq, D], each row divided by the sum of its own weights; partial_lse: f32[R, Hq], log2 of those sums;
    part_start: i32[k + 1], ascending; part_index: i32; out_rows: i32[k]. The merge is the mean of the rows weighted with 2^lse, as
    in FlashAttention's split decoding (Dao et al., 2023). Rows with an LSE of -inf do not count, and may contain anything; if none
    counts, the merge is 0. Without parts, nothing is written, and out_rows[i] may be anything.
    """
    check_parts(partial_out, partial_lse, part_start, part_index, out_rows, out)
    counts = part_start.diff().long()
    parts = part_index[int(part_start[0]) : int(part_start[-1])].long()
    row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)  # [parts]
    lse = partial_lse[parts]  # [parts, Hq]
    most = lse.new_full((len(counts), lse.shape[1]), -torch.inf)
    most.scatter_reduce_(0, row[:, None].expand_as(lse), lse, "amax")
    most.masked_fill_(most == -torch.inf, 0.0)  # any value: every weight is 0
    weight = torch.exp2(lse - most[row])
    weighted = (partial_out[parts] * weight[:, :, None]).masked_fill_((weight == 0.0)[:, :, None], 0.0)
    total = torch.zeros_like(most).index_add_(0, row, weight)
    merged = weighted.new_zeros(len(counts), *out.shape[1:]).index_add_(0, row, weighted)
    merged /= total.masked_fill(total == 0.0, 1.0)[:, :, None]
    written = counts > 0
    out[out_rows[written].long()] = merged[written].to(out.dtype)
