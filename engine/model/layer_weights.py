"""Weights of a layer for its forward pass: [out, in] by default; projections of one input are one matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch


@dataclass(frozen=True, slots=True)
class GroupedWeights:
    """Weights of attention whose heads share keys and values in groups."""

    qkv: torch.Tensor  # [(Hq + 2 Hkv) * D, hidden]
    qkv_bias: torch.Tensor | None
    qk_norm: torch.Tensor | None  # [Hq + Hkv, D]: q_norm and k_norm, repeated for each head
    output: torch.Tensor  # [hidden, Hq * D]
    output_bias: torch.Tensor | None
    sinks: torch.Tensor | None = None  # [Hq]


@dataclass(frozen=True, slots=True)
class LatentWeights:
    """Attention over latent vectors; queries are compressed where there is a `query_down`."""

    query_down: torch.Tensor | None  # [query_rank, hidden]
    query_down_bias: torch.Tensor | None
    query_norm: torch.Tensor | None  # [query_rank]
    query: torch.Tensor  # [Hq * (nope + rope), query_rank or hidden]
    latent: torch.Tensor  # [kv_rank + rope, hidden]
    latent_bias: torch.Tensor | None
    latent_norm: torch.Tensor  # [kv_rank]
    expand: torch.Tensor  # [Hq * (nope + value), kv_rank]
    output: torch.Tensor  # [hidden, Hq * value]
    output_bias: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class DenseWeights:
    """A gated MLP."""

    gate_up: torch.Tensor  # [2 * intermediate, hidden]
    gate_up_bias: torch.Tensor | None
    down: torch.Tensor  # [hidden, intermediate]
    down_bias: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """Gated MLPs of E experts, and the router that chooses among them.

    Weights of clamped experts (gpt-oss) are [in, out], with gate and up in turn, and have biases.
    """

    router: torch.Tensor  # [E, hidden]
    router_bias: torch.Tensor | None  # [E]
    correction: torch.Tensor | None  # [E]
    gate_up: torch.Tensor  # [E, 2 * intermediate, hidden]
    gate_up_bias: torch.Tensor | None  # [E, 2 * intermediate]
    down: torch.Tensor  # [E, hidden, intermediate]
    down_bias: torch.Tensor | None  # [E, hidden]
    shared: DenseWeights | None


AttentionWeights: TypeAlias = GroupedWeights | LatentWeights
MlpWeights: TypeAlias = DenseWeights | ExpertWeights


@dataclass(frozen=True, slots=True)
class Layer:
    """Norms are [hidden]; norms of outputs are None where attention's and MLP's outputs are added without one."""

    attention_norm: torch.Tensor
    attention: AttentionWeights
    attention_output_norm: torch.Tensor | None
    mlp_norm: torch.Tensor
    mlp: MlpWeights
    mlp_output_norm: torch.Tensor | None
