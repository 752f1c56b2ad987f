"""Partial results of attention to merge, and the merge in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

UNTOUCHED = 77.0


@dataclass(frozen=True)
class Parts:
    """Rows of random partial results, of which output row i merges counts[i]; those that none merges are NaN."""

    partial_out: torch.Tensor  # f32[R, Hq, D], a slice of something wider
    partial_lse: torch.Tensor  # f32[R, Hq]
    part_start: torch.Tensor
    part_index: torch.Tensor
    out_rows: torch.Tensor
    out: torch.Tensor  # [T, Hq, D], a slice of something wider

    def arguments(self) -> tuple[torch.Tensor, ...]:
        return self.partial_out, self.partial_lse, self.part_start, self.part_index, self.out_rows, self.out

    def expected(self) -> torch.Tensor:
        """float64 of out's shape, as it must be afterwards; before, it holds UNTOUCHED."""
        out = torch.full(self.out.shape, UNTOUCHED, dtype=torch.float64)
        bounds = self.part_start.tolist()
        for row, start, stop in zip(self.out_rows.tolist(), bounds, bounds[1:], strict=False):
            if start == stop:
                continue
            parts = self.part_index[start:stop].long()
            lse = self.partial_lse[parts].double()  # [parts, Hq]
            seen = lse > -torch.inf
            weight = torch.where(seen.any(0), (lse * torch.tensor(2.0).double().log()).softmax(0), 0.0)
            value = torch.where(seen[:, :, None], self.partial_out[parts].double(), 0.0)
            out[row] = (weight[:, :, None] * value).sum(0)
        return out


def parts(
    counts: Sequence[int],
    *,
    heads: int = 3,
    dim: int = 8,
    dtype: torch.dtype = torch.float32,
    spread: float = 10.0,
    empty: Sequence[int] = (),
    seed: int = 0,
) -> Parts:
    """`empty` are parts, counted in the order in which they are merged, that saw nothing and have NaN for a result; where there are
    no parts for an output row, its number is no row's."""
    generator = torch.Generator().manual_seed(seed)
    merged, rows = sum(counts), sum(counts) + 4
    index = torch.randperm(rows, generator=generator)[: merged + 1].int()  # one more than there are parts
    partial_out = torch.full((rows, heads + 1, dim + 4), torch.nan)[:, 1:, 4:]
    partial_lse = torch.full((rows, heads), torch.nan)
    used = index[:merged].long()
    partial_out[used] = torch.randn(merged, heads, dim, generator=generator)
    partial_lse[used] = spread * torch.randn(merged, heads, generator=generator)
    lost = used[list(empty)]
    partial_out[lost], partial_lse[lost] = torch.nan, -torch.inf
    out_rows = torch.randperm(len(counts) + 2, generator=generator)[: len(counts)]
    out = torch.full((len(counts) + 2, heads, dim + 2), UNTOUCHED, dtype=dtype)[:, :, 2:]
    starts = torch.tensor([0, *counts]).cumsum(0)
    return Parts(
        partial_out,
        partial_lse,
        starts.int(),
        index,
        torch.where(torch.tensor(counts) > 0, out_rows, 1_000_000).int(),
        out,
    )
