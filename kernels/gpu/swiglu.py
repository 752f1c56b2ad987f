"""SwiGLU, the gated activation of an MLP (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.checks import check_gate_up
from kvtool.kernels.gpu.launch_options import OPTIONS

_COLUMNS = 1024  # of a program: 16 bytes of gate and of up for each of its 128 threads, where numbers have 16 bits
_WARPS = 4
"""4 warps are 128 threads."""


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """Run `kvtool.kernels.swiglu.swiglu` as one launch; rows may be apart. Accesses are of 16 bytes if I is a multiple of 16."""
    check_gate_up(gate_up)
    tokens, inner = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty(tokens, inner)
    if not out.numel():
        return out
    columns = min(_COLUMNS, triton.next_power_of_2(inner))
    programs = triton.cdiv(inner, columns)
    _swiglu[(tokens * programs,)](
        gate_up, out, inner, gate_up.stride(0), programs, COLUMNS=columns, num_warps=_WARPS, **OPTIONS
    )
    return out


@triton.jit
def _swiglu(
    gate_up,  # [T, 2 * inner]
    out,  # [T, inner], contiguous
    inner,
    stride,
    programs,
    COLUMNS: tl.constexpr,
):
    """Compute COLUMNS numbers of one row; a row has that many `programs`."""
    row = (tl.program_id(0) // programs).to(tl.int64)
    column = tl.program_id(0) % programs * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < inner
    gates = gate_up + row * stride + column
    gate = tl.load(gates, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gates + inner, mask=inside, other=0.0).to(tl.float32)
    activated = (gate * tl.sigmoid(gate)).to(out.dtype.element_ty).to(tl.float32)  # round here as torch does
    tl.store(out + row * inner + column, (activated * up).to(out.dtype.element_ty), mask=inside)
