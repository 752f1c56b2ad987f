"""Attention over some of the tokens that queries see, with the sums needed to continue with the others (torch, on CPUs)."""

from __future__ import annotations

import torch

from kvtool.kernels.attention_rule import PLAIN_RULE, AttentionRule, capped


def attend_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rule: AttentionRule = PLAIN_RULE,
    *,
    causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return output [B, H, n, D] of q [B, H, n, D] over k, v [B, H, m, D], and the logarithm f32[B, H, n] of the sum of its
    weights.

    Of the rule, scale and softcap are computed; windows are a matter of the mask, sinks of the whole result. `causal`: query i
    sees the keys up to i. `mask` is added to the scores: q's type, broadcast over [B, H, n, m], and every query sees one key at
    least. All tensors are on the CPU, contiguous in their last dimension."""
    if rule.softcap is not None:
        return _attend_capped(q, k, v, rule, causal=causal, mask=mask)
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask, scale=rule.scale
    )
    return out, lse


def _attend_capped(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: AttentionRule, *, causal: bool, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the formula directly: torch has no fused attention with a softcap."""
    scale = q.shape[-1] ** -0.5 if rule.scale is None else rule.scale
    scores = capped((q @ k.mT).float() * scale, rule.softcap)  # [B, H, n, m]
    if causal:
        later = torch.arange(k.shape[2]) > torch.arange(q.shape[2])[:, None]
        scores = scores.masked_fill_(later, -torch.inf)
    if mask is not None:
        scores = scores + mask
    lse = scores.logsumexp(dim=-1)
    weights = torch.exp(scores - lse.unsqueeze(-1)).to(v.dtype)
    return weights @ v, lse


def merge_lse(out: torch.Tensor, lse: torch.Tensor, part: torch.Tensor, part_lse: torch.Tensor) -> None:
    """Go on with the result over other keys, in place: out, part [..., D] and their log-sum-exps f32[...].

    The weight of `part` is e^part_lse / (e^lse + e^part_lse), as in FlashAttention's split decoding (Dao et al., 2023).
    """
    out.lerp_(part.to(out.dtype), torch.sigmoid(part_lse - lse).unsqueeze(-1))
    torch.logaddexp(lse, part_lse, out=lse)
