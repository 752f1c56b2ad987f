"""Root-mean-square norm, with and without a sum before it (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.checks import check_norm, check_summands
from kvtool.kernels.gpu.launch_options import OPTIONS

_ELEMENTS = 2048  # of a program with several rows
_MOST_COLUMNS = 16_384  # a row is kept in registers, 32 numbers for each of 512 threads


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Run `kvtool.kernels.rms_norm.rms_norm` as one launch; of x, only the last dimension has to be contiguous. D <= 16,384."""
    check_norm(x, weight)
    _check_columns(x)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if not x.numel():
        return out
    columns = x.shape[-1]
    heads = x.shape[-2] if x.dim() > 2 or weight.dim() == 2 else 1
    rows = x.reshape(-1, heads, columns)  # a view, unless x has more than three dimensions that cannot be one
    width, rows_per_program, warps = _tile(columns)
    count = rows.shape[0] * rows.shape[1]
    _rms_norm[(triton.cdiv(count, rows_per_program),)](
        rows,
        weight,
        out,
        eps,
        count,
        heads,
        *rows.stride()[:2],
        weight.stride(0) if weight.dim() == 2 else 0,
        D=columns,
        WIDTH=width,
        ROWS=rows_per_program,
        PER_HEAD=weight.dim() == 2,
        num_warps=warps,
        **OPTIONS,
    )
    return out


def add_rms_norm(
    x: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run `kvtool.kernels.rms_norm.add_rms_norm` as one launch, which reads x and delta once. D <= 16,384."""
    check_summands(x, delta, weight)
    _check_columns(x)
    total = torch.empty_like(x, memory_format=torch.contiguous_format)
    out = torch.empty_like(total)
    if not x.numel():
        return total, out
    count, columns = x.shape
    width, rows_per_program, warps = _tile(columns)
    _add_rms_norm[(triton.cdiv(count, rows_per_program),)](
        x,
        delta,
        weight,
        total,
        out,
        eps,
        count,
        x.stride(0),
        delta.stride(0),
        D=columns,
        WIDTH=width,
        ROWS=rows_per_program,
        num_warps=warps,
        **OPTIONS,
    )
    return total, out


def _check_columns(x: torch.Tensor) -> None:
    if x.shape[-1] > _MOST_COLUMNS:
        raise ValueError(f"rows of {x.shape[-1]} elements are longer than the {_MOST_COLUMNS} that the kernel can norm")


def _tile(columns: int) -> tuple[int, int, int]:
    """Return width and number of a program's rows, and its warps: 16 numbers for each thread as long as 16 warps are enough."""
    width = triton.next_power_of_2(columns)
    rows = max(1, _ELEMENTS // width)
    return width, rows, min(16, max(1, rows * width // 512))


@triton.jit(do_not_specialize=["num_rows"])
def _rms_norm(
    x,  # [num_rows / heads, heads, D]
    weight,  # [D], or [heads, D] where PER_HEAD
    out,  # [num_rows, D], contiguous
    eps,
    num_rows,
    heads,
    stride_outer,
    stride_head,
    weight_stride,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    PER_HEAD: tl.constexpr,
):
    row, dims, inside = _rows(num_rows, D, WIDTH, ROWS)
    head = row % heads
    x_rows = x + row // heads * stride_outer + head * stride_head
    values = tl.load(x_rows[:, None] + dims[None, :], mask=inside, other=0.0).to(tl.float32)
    if PER_HEAD:
        weights = tl.load((weight + head * weight_stride)[:, None] + dims[None, :], mask=inside, other=0.0)
    else:
        weights = tl.load(weight + dims[None, :], mask=dims[None, :] < D, other=0.0)
    normed = values * _factor(values, eps, D)
    if PER_HEAD:
        normed = normed.to(out.dtype.element_ty).to(tl.float32)
    normed = normed * weights.to(tl.float32)
    tl.store(out + row[:, None] * D + dims[None, :], normed.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def _add_rms_norm(
    x,  # [num_rows, D]
    delta,  # [num_rows, D]
    weight,  # [D]
    total,  # [num_rows, D], contiguous
    out,  # [num_rows, D], contiguous
    eps,
    num_rows,
    x_stride,
    delta_stride,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    row, dims, inside = _rows(num_rows, D, WIDTH, ROWS)
    left = tl.load((x + row * x_stride)[:, None] + dims[None, :], mask=inside, other=0.0).to(tl.float32)
    right = tl.load((delta + row * delta_stride)[:, None] + dims[None, :], mask=inside, other=0.0).to(tl.float32)
    weights = tl.load(weight + dims[None, :], mask=dims[None, :] < D, other=0.0).to(tl.float32)
    rounded = (left + right).to(total.dtype.element_ty)
    to = row[:, None] * D + dims[None, :]
    tl.store(total + to, rounded, mask=inside)
    values = rounded.to(tl.float32)
    normed = values * _factor(values, eps, D) * weights
    tl.store(out + to, normed.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _rows(num_rows, D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Return the numbers of the program's rows, as int64; columns; the mask of existing elements."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, WIDTH)
    inside = (row < num_rows)[:, None]
    if D != WIDTH:
        inside = inside & (dims < D)[None, :]
    return row, dims, inside


@triton.jit
def _factor(values, eps, D: tl.constexpr):
    return tl.rsqrt(tl.sum(values * values, 1) / D + eps)[:, None]
