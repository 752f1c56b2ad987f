"""SwiGLU, the gated activation of an MLP (torch)."""

from __future__ import annotations

import torch
from torch.nn.functional import silu

from kvtool.kernels.checks import check_gate_up


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up, [T, I], of gate_up [T, 2 * I]; silu(gate) is rounded to the type before it is multiplied."""
    check_gate_up(gate_up)
    gate, up = gate_up.chunk(2, dim=-1)
    return silu(gate).mul_(up)
