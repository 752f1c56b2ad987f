"""Attention over some of the tokens that queries see, with what is needed to go on with the others (torch, on CPUs)."""

from __future__ import annotations

import torch


def attend_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [B, H, n, D] of q [B, H, n, D] over k, v [B, H, m, D], and f32[B, H, n]: the logarithm of the sum of its weights.

    Scores are q.k / sqrt(D). `causal`: query i sees the keys up to i. `mask` is added to the scores: q's type, broadcast over
    [B, H, n, m], and every query sees one key at least. All tensors are on the CPU, contiguous in their last dimension.
    """
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask)
    return out, lse


def merge_lse(out: torch.Tensor, lse: torch.Tensor, part: torch.Tensor, part_lse: torch.Tensor) -> None:
    """Go on with the result over other keys, in place: out, part [..., D] and their log-sum-exps f32[...].

    The weight of `part` is e^part_lse / (e^lse + e^part_lse), as in FlashAttention's split decoding (Dao et al., 2023).
    """
    out.lerp_(part.to(out.dtype), torch.sigmoid(part_lse - lse).unsqueeze(-1))
    torch.logaddexp(lse, part_lse, out=lse)
