"""Rotary position embedding of queries and keys (torch)."""

from __future__ import annotations

import torch

from kvtool.kernels.checks import check_rotation


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return x [T, H, D], rotated: element j with element j + D/2, which is Hugging Face's layout.

    cos, sin: [T, 1, D] of x's type; sin is signed, negative for the first half of the elements. Both terms of a sum are not
    rounded alike: the product with cos is rounded to x's type, that with sin is not. Su et al., "RoFormer", 2021.
    """
    check_rotation(x, cos, sin)
    half = x.shape[-1] // 2
    out = x * cos
    out[..., :half].addcmul_(x[..., half:], sin[..., :half])  # a roll of x would go through memory twice more
    out[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return out
