"""The gated MLP of a layer, computed with packed weights or as torch has it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import gelu, linear

from kvtool.engine.model.configs.traits import Activation
from kvtool.engine.model.layer_weights import DenseWeights
from kvtool.engine.model.products import PackedWeight, can_pack
from kvtool.kernels.protocol import Kernels


class Mlp(Protocol):
    """The part of a layer after attention."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x [T, hidden] to [T, hidden]."""
        ...


def make_mlp(weights: DenseWeights, activation: Activation, kernels: Kernels) -> Mlp:
    """Return an MLP, with packed weights where they exist."""
    if can_pack(weights.gate_up):
        return PackedMlp(weights, activation)
    return PlainMlp(weights, activation, kernels)


class PlainMlp:
    """The MLP in torch or with a kernel."""

    def __init__(self, weights: DenseWeights, activation: Activation, kernels: Kernels) -> None:
        self._weights = weights
        self._activation = activation
        self._kernels = kernels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self._weights
        gate_up = linear(x, weights.gate_up, weights.gate_up_bias)
        return linear(gated(gate_up, self._activation, self._kernels), weights.down, weights.down_bias)


class PackedMlp:
    """The MLP with packed weights; the products of gate and up compute the activation."""

    def __init__(self, weights: DenseWeights, activation: Activation) -> None:
        gate, up = weights.gate_up.chunk(2)
        gate_bias, up_bias = (None, None) if weights.gate_up_bias is None else weights.gate_up_bias.chunk(2)
        self._then = ("swish", "") if activation == "silu" else ("gelu", "tanh")
        self._gate, self._up = PackedWeight(gate, gate_bias), PackedWeight(up, up_bias)
        self._down = PackedWeight(weights.down, weights.down_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._down.product(self._up.product_times(x, self._gate.product(x, *self._then)))


def gated(gate_up: torch.Tensor, activation: Activation, kernels: Kernels) -> torch.Tensor:
    """Return activation(gate) * up, [T, I], of gate_up [T, 2 * I]."""
    if activation == "silu":
        return kernels.swiglu(gate_up)
    gate, up = gate_up.chunk(2, dim=-1)
    return gelu(gate, approximate="tanh").mul_(up)
