"""Rotary position embedding: each head's element j is rotated together with element j + D/2, as in Hugging Face's layout."""

from __future__ import annotations

import math

import torch

from kvtool.engine.model.configs.rope_config import DefaultRope, LinearRope, Llama3Rope, Rope, YarnRope


class Rotation:
    """Factors of queries and keys, for any positions."""

    def __init__(self, rope: Rope, head_dim: int, device: torch.device | str = "cpu") -> None:
        # Made on the CPU, so that every device gets the same bits.
        self.frequency = frequencies(rope, head_dim).to(device)  # float32[D / 2], radians per token
        self.scale = rope.attention_factor if isinstance(rope, YarnRope) else 1.0

    def at(self, positions: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cos and signed sin of positions [T], each [T, 1, D], for `kernels.rotary`."""
        angle = positions.to(torch.float32)[:, None, None] * self.frequency
        cos, sin = (angle.cos() * self.scale).to(dtype), (angle.sin() * self.scale).to(dtype)
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def frequencies(rope: Rope, head_dim: int) -> torch.Tensor:
    """Return float32[D / 2]"""
    base = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    match rope:
        case DefaultRope():
            return base
        case LinearRope():
            return base / rope.factor
        case Llama3Rope():
            turns = base * (rope.original_max_position_embeddings / (2 * math.pi))
            kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        case YarnRope():
            kept = _yarn_own_share(rope, head_dim)
    kept = kept.clamp(0.0, 1.0)
    return base * kept + base / rope.factor * (1.0 - kept)


def _yarn_own_share(rope: YarnRope, head_dim: int) -> torch.Tensor:
    """Return the kept part of each pair's own frequency, before it is clamped to [0, 1]."""

    def pair_with(turns: float) -> float:
        """Return the pair, as a real number, that turns that often over the original context."""
        length = rope.original_max_position_embeddings / (2 * math.pi * turns)
        return head_dim * math.log(length) / (2 * math.log(rope.theta))

    first, last = pair_with(rope.beta_fast), pair_with(rope.beta_slow)
    if rope.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    width = last - first if last != first else 0.001  # a step where there is no room for a slope
    return 1.0 - (torch.arange(head_dim // 2, dtype=torch.float32) - first) / width
