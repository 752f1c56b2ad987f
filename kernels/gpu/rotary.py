"""Rotary position embedding of queries and keys (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.checks import check_rotation
from kvtool.kernels.gpu.launch_options import OPTIONS

ELEMENTS = 2048
"""Numbers of a program: for 16-bit numbers, each of its 128 threads loads 16 bytes of both halves of a row, of cos and of sin."""
WARPS = 4
"""4 warps are 128 threads."""


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Run `kvtool.kernels.rotary.rotary` as one launch; only the last dimensions have to be contiguous."""
    check_rotation(x, cos, sin)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    tokens, heads, dim = x.shape
    if not x.numel():
        return out
    half = dim // 2
    width = triton.next_power_of_2(half)
    rows = max(1, ELEMENTS // (2 * width))
    _rotary[(triton.cdiv(tokens * heads, rows),)](
        x,
        cos,
        sin,
        out,
        tokens,
        *x.stride()[:2],
        cos.stride(0),
        sin.stride(0),
        HEADS=heads,
        HALF=half,
        WIDTH=width,
        ROWS=rows,
        num_warps=WARPS,
        **OPTIONS,
    )
    return out


@triton.jit(do_not_specialize=["num_tokens"])
def _rotary(
    x,  # [T, HEADS, 2 * HALF]
    cos,  # [T, 1, 2 * HALF]
    sin,
    out,  # [T, HEADS, 2 * HALF], contiguous
    num_tokens,
    stride_token,
    stride_head,
    cos_stride,
    sin_stride,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Rotate ROWS rows, each a token's head."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    token, head = row // HEADS, row % HEADS
    dims = tl.arange(0, WIDTH)
    inside = (token < num_tokens)[:, None]
    if HALF != WIDTH:
        inside = inside & (dims < HALF)[None, :]
    first, second = load_halves(x + token * stride_token + head * stride_head, dims, inside, HALF)
    first, second = rotate(
        first, second, cos + token * cos_stride, sin + token * sin_stride, dims, inside, HALF, x.dtype.element_ty
    )
    store_halves(out + row * (2 * HALF), dims, first, second, inside, HALF)


@triton.jit
def load_halves(rows, dims, inside, HALF: tl.constexpr):
    """Load f32[ROWS, WIDTH] twice: the first and the second halves of the rows that begin there."""
    pointers = rows[:, None] + dims[None, :]
    first = tl.load(pointers, mask=inside, other=0.0)
    second = tl.load(pointers + HALF, mask=inside, other=0.0)
    return first.to(tl.float32), second.to(tl.float32)


@triton.jit
def store_halves(rows, dims, first, second, inside, HALF: tl.constexpr):
    pointers = rows[:, None] + dims[None, :]
    tl.store(pointers, first.to(rows.dtype.element_ty), mask=inside)
    tl.store(pointers + HALF, second.to(rows.dtype.element_ty), mask=inside)


@triton.jit
def rotate(first, second, cos_rows, sin_rows, dims, inside, HALF: tl.constexpr, DTYPE: tl.constexpr):
    """Return both halves rotated, in fp32 but rounded to DTYPE where the torch twin does so."""
    cos_first, cos_second = load_halves(cos_rows, dims, inside, HALF)
    sin_first, sin_second = load_halves(sin_rows, dims, inside, HALF)
    rotated_first = rounded(first * cos_first, DTYPE) + second * sin_first
    rotated_second = rounded(second * cos_second, DTYPE) + first * sin_second
    return rounded(rotated_first, DTYPE), rounded(rotated_second, DTYPE)


@triton.jit
def rounded(x, DTYPE: tl.constexpr):
    """Return f32 x as f32, rounded to the bits of DTYPE."""
    return x.to(DTYPE).to(tl.float32)
