"""Root-mean-square norm, with and without a sum before it (torch)."""

from __future__ import annotations

import torch
from torch.nn import functional

from kvtool.kernels.checks import check_norm, check_summands


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x [..., D] / sqrt(mean(x²) + eps) * weight [D], or x [..., H, D] with a weight for each head, [H, D].

    Computed in fp32. With weights [H, D], x's own norm is rounded to its type before it is multiplied, as it is where a model
    shares one weight among its heads. Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    """
    check_norm(x, weight)
    if weight.dim() == 1:
        return _normed(x, weight, eps)
    return functional.rms_norm(x, weight.shape[-1:], eps=eps) * weight


def add_rms_norm(
    x: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x + delta, all [T, D], and its norm with weight [D]; the sum is rounded to x's type before it is normed."""
    check_summands(x, delta, weight)
    total = x + delta
    return total, _normed(total, weight, eps)


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x [..., D] and weight [D]. In fp32 on CPUs torch's own goes through memory more often than needed."""
    if x.dtype != torch.float32 or x.device.type != "cpu":
        return functional.rms_norm(x, weight.shape, weight, eps)
    mean: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1])
    return (x * mean.add_(eps).rsqrt_()).mul_(weight)
