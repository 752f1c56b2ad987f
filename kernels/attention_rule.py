"""Variations of a layer's attention from softmax(q.k / sqrt(D)) over all tokens up to the query's own (torch)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """The order is scale, softcap, window, sinks."""

    scale: float | None = None
    """Scale of q.k: 1/sqrt(D) by default."""
    softcap: float | None = None
    """Scores s become softcap * tanh(s / softcap) (Gemma 2)."""
    window: int | None = None
    """Tokens that a query sees, its own included; None: all up to its own."""
    sinks: torch.Tensor | None = None
    """float[Hq]: a score of each head that takes its share of the weights and adds no value (gpt-oss)."""

    def __post_init__(self) -> None:
        for name in ("scale", "softcap", "window"):
            number = getattr(self, name)
            if number is not None and not 0 < number < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, not {number}")


PLAIN_RULE = AttentionRule()


def capped(scores: torch.Tensor, softcap: float | None) -> torch.Tensor:
    """Return scores after a softcap, if there is one."""
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap


def apply_sinks(out: torch.Tensor, lse: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Return the rest of out [..., D], with natural log-sum-exps lse [...], after sinks [...] take their share of the weights."""
    return out * torch.sigmoid(lse - sinks.to(lse.dtype)).unsqueeze(-1)
