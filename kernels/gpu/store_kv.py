"""Write new tokens' keys and values into the blocks of a paged cache (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.checks import check_new_tokens
from kvtool.kernels.gpu.launch_options import OPTIONS
from kvtool.kernels.gpu.tiles import current_target
from kvtool.kernels.kv_quantization import MAXIMA, Scale

_ELEMENTS = 4096  # of a program: 4 loads of 16 bytes in flight for each of its 128 threads, where numbers have 16 bits
_WARPS = 4
"""4 warps are 128 threads."""


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: Scale = 1.0,
    v_scale: Scale = 1.0,
) -> None:
    """Run `kvtool.kernels.store_kv.store_kv` as one launch; k and v may be slices of a projection."""
    check_new_tokens(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale)
    current_target().check_cache(k_cache.dtype)
    tokens, heads, dim = k.shape
    if not tokens:
        return
    width = triton.next_power_of_2(dim)
    rows = max(1, _ELEMENTS // width)
    _store_kv[(triton.cdiv(tokens * heads, rows), 2)](
        k,
        v,
        k_cache,
        v_cache,
        k_scale,
        v_scale,
        slot_mapping,
        tokens,
        *k.stride()[:2],
        *v.stride()[:2],
        *k_cache.stride()[:3],
        *v_cache.stride()[:3],
        *scale_strides(k_scale),
        *scale_strides(v_scale),
        HEADS=heads,
        D=dim,
        WIDTH=width,
        PAGE=k_cache.shape[2],
        ROWS=rows,
        LARGEST=MAXIMA.get(k_cache.dtype, 0.0),
        K_DYNAMIC=isinstance(k_scale, torch.Tensor),
        V_DYNAMIC=isinstance(v_scale, torch.Tensor),
        num_warps=_WARPS,
        **OPTIONS,
    )


def scale_strides(scale: Scale) -> tuple[int, ...]:
    """Return the strides of blocks, heads and slots."""
    return scale.stride() if isinstance(scale, torch.Tensor) else (0, 0, 0)


@triton.jit(do_not_specialize=["num_tokens"])
def _store_kv(
    k,  # [T, HEADS, D]
    v,
    k_cache,  # [NB, HEADS, PAGE, D]
    v_cache,
    k_scale,  # a number, or f32[NB, HEADS, PAGE]
    v_scale,
    slots,  # int64[T]
    num_tokens,
    k_stride_token,
    k_stride_head,
    v_stride_token,
    v_stride_head,
    k_cache_stride_block,
    k_cache_stride_head,
    k_cache_stride_slot,
    v_cache_stride_block,
    v_cache_stride_head,
    v_cache_stride_slot,
    k_scale_stride_block,
    k_scale_stride_head,
    k_scale_stride_slot,
    v_scale_stride_block,
    v_scale_stride_head,
    v_scale_stride_slot,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    LARGEST: tl.constexpr,
    K_DYNAMIC: tl.constexpr,
    V_DYNAMIC: tl.constexpr,
):
    """Store ROWS rows, each a token's head: keys if the grid's second index is 0, values if it is 1."""
    if tl.program_id(1) == 0:
        _store_rows(
            k, k_cache, k_scale, slots, num_tokens, k_stride_token, k_stride_head,
            k_cache_stride_block, k_cache_stride_head, k_cache_stride_slot,
            k_scale_stride_block, k_scale_stride_head, k_scale_stride_slot,
            HEADS, D, WIDTH, PAGE, ROWS, LARGEST, K_DYNAMIC,
        )  # fmt: skip
    else:
        _store_rows(
            v, v_cache, v_scale, slots, num_tokens, v_stride_token, v_stride_head,
            v_cache_stride_block, v_cache_stride_head, v_cache_stride_slot,
            v_scale_stride_block, v_scale_stride_head, v_scale_stride_slot,
            HEADS, D, WIDTH, PAGE, ROWS, LARGEST, V_DYNAMIC,
        )  # fmt: skip


@triton.jit
def _store_rows(
    x,
    cache,
    scale,
    slots,
    num_tokens,
    stride_token,
    stride_head,
    cache_stride_block,
    cache_stride_head,
    cache_stride_slot,
    scale_stride_block,
    scale_stride_head,
    scale_stride_slot,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    LARGEST: tl.constexpr,
    DYNAMIC: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token, head = row // HEADS, row % HEADS
    dims = tl.arange(0, WIDTH)
    real = token < num_tokens
    inside = real[:, None]
    if D != WIDTH:
        inside = inside & (dims < D)[None, :]
    # The rows are read whether or not they are skipped, so that this load does not wait for the other.
    slot = tl.load(slots + token, mask=real, other=-1)
    x_rows = x + token.to(tl.int64) * stride_token + head * stride_head
    values = tl.load(x_rows[:, None] + dims[None, :], mask=inside, other=0.0)
    kept = slot >= 0
    if LARGEST > 0:
        values = values.to(tl.float32)
        if DYNAMIC:
            own = dynamic_scale(tl.max(tl.abs(values), 1), LARGEST)
            scales = slot_offsets(slot, head, scale_stride_block, scale_stride_head, scale_stride_slot, PAGE)
            tl.store(scale + scales, own, mask=kept)
            scale = own[:, None]
        values = quantized(values, scale, LARGEST, cache.dtype.element_ty)
    elif values.dtype != cache.dtype.element_ty:
        values = values.to(tl.float32).to(cache.dtype.element_ty)
    cache_rows = cache + slot_offsets(slot, head, cache_stride_block, cache_stride_head, cache_stride_slot, PAGE)
    tl.store(cache_rows[:, None] + dims[None, :], values, mask=inside & kept[:, None])


@triton.jit
def slot_offsets(slot, head, stride_block, stride_head, stride_slot, PAGE: tl.constexpr):
    """Return the offset of a head's slot in a cache or its scales, as int64: a cache can be larger than 2^31 numbers."""
    block = slot // PAGE
    return block * stride_block + head * stride_head + (slot - block * PAGE) * stride_slot


@triton.jit
def dynamic_scale(largest, LARGEST: tl.constexpr):
    """Return the scale that stores `largest` as LARGEST; see `kv_quantization.dynamic_scale`."""
    return tl.maximum(tl.div_rn(largest, LARGEST), 1.1754943508222875e-38)


@triton.jit
def quantized(values, scale, LARGEST: tl.constexpr, DTYPE: tl.constexpr):
    """Return f32 values / scale as DTYPE, whose largest number is LARGEST: without the clamp, casts would overflow."""
    scaled = tl.clamp(values / scale, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)
    if DTYPE.is_int():
        # Next to 1.5 * 2^23, floats are integers: the sum is rounded, half to even, and its last byte is the number.
        return (scaled + 12582912.0).to(tl.int32, bitcast=True).to(DTYPE)
    return scaled.to(DTYPE)
