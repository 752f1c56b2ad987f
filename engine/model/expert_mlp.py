"""A mixture of experts in place of a layer's MLP: expert after expert, over the tokens that chose it."""

from __future__ import annotations

import torch
from torch.nn.functional import linear

from kvtool.engine.model.configs.traits import Activation
from kvtool.engine.model.experts import Experts
from kvtool.engine.model.layer_weights import ExpertWeights
from kvtool.engine.model.mlp import gated, make_mlp
from kvtool.engine.model.routing import route
from kvtool.kernels.protocol import Kernels


class ExpertMlp:
    """Experts, plus an MLP for all tokens where the model has one."""

    def __init__(self, weights: ExpertWeights, experts: Experts, activation: Activation, kernels: Kernels) -> None:
        self._weights = weights
        self._experts = experts
        self._activation = activation
        self._kernels = kernels
        self._shared = None if weights.shared is None else make_mlp(weights.shared, activation, kernels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self._weights
        shares, chosen = route(x, self._experts, weights.router, weights.router_bias, weights.correction)
        out = torch.zeros_like(x) if self._shared is None else self._shared.forward(x)
        for expert in torch.unique(chosen).tolist():
            token, place = (chosen == expert).nonzero(as_tuple=True)
            computed = self._clamped(expert, x[token]) if self._experts.clamped else self._plain(expert, x[token])
            out.index_add_(0, token, (computed * shares[token, place, None]).to(out.dtype))
        return out

    def _plain(self, expert: int, x: torch.Tensor) -> torch.Tensor:
        inner = gated(linear(x, self._weights.gate_up[expert]), self._activation, self._kernels)
        return linear(inner, self._weights.down[expert])

    def _clamped(self, expert: int, x: torch.Tensor) -> torch.Tensor:
        """Compute gpt-oss's gate * sigmoid(gain * gate) * (up + 1), of inputs that are kept within a limit."""
        weights = self._weights
        assert self._experts.clamped is not None
        assert weights.gate_up_bias is not None
        assert weights.down_bias is not None
        gain, limit = self._experts.clamped
        gate_up = x @ weights.gate_up[expert] + weights.gate_up_bias[expert]
        gate, up = gate_up[:, ::2].clamp(max=limit), gate_up[:, 1::2].clamp(-limit, limit)
        inner = (up + 1) * (gate * torch.sigmoid(gate * gain))
        return inner @ weights.down[expert] + weights.down_bias[expert]
