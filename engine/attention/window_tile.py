"""Compute prefill on a CPU with a window: tile by tile of queries, over only the tokens that the tile sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvtool.kernels.attention_rule import AttentionRule
from kvtool.kernels.lse_attention import attend_lse

QUERY_TILE = 256
"""Rows of queries in a call with a mask: bounds the mask, and skips most hidden tokens."""


@dataclass(frozen=True, slots=True)
class WindowTile:
    """Queries of one request that follow each other, and the blocks from the first one's window to the last one's own token."""

    rows: slice
    blocks: torch.Tensor  # int64[n]
    skipped: int
    """Tokens of the first block that lie before all windows."""
    length: int
    """Tokens from there to the last query's own."""
    window: int

    def attend(
        self, rows: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, rule: AttentionRule
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return output [Hkv, n, group, D] and log-sum-exps [Hkv, n, group] of the tile's queries, of rows [Hkv, T, group, D]."""
        q = rows[:, self.rows].transpose(1, 2)  # [Hkv, group, n, D]
        group, count = q.shape[1:3]

        def read(cache: torch.Tensor) -> torch.Tensor:
            """Return [Hkv, group, length, D]."""
            tokens = by_head(cache).index_select(1, self.blocks).flatten(1, 2)
            return tokens[:, None, self.skipped : self.skipped + self.length].expand(-1, group, -1, -1)

        at, own = torch.arange(self.length), torch.arange(self.length - count, self.length)[:, None]
        hidden = (at > own) | (at <= own - self.window)
        mask = torch.zeros(hidden.shape, dtype=q.dtype).masked_fill_(hidden, -torch.inf)
        k = read(k_cache)
        out, lse = attend_lse(q, k, k if v_cache is k_cache else read(v_cache), rule, mask=mask[None, None])
        return out.transpose(1, 2), lse.transpose(1, 2)


def by_head(cache: torch.Tensor) -> torch.Tensor:
    """Return [Hkv, num_blocks, P, D], a view."""
    return cache.transpose(0, 1)
