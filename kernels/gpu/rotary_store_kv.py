"""Process a layer's projection for its attention: norm of the heads, rotation, and the store of keys and values (Triton)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtool.kernels.checks import check_new_tokens, check_projection, check_rotation
from kvtool.kernels.gpu.launch_options import OPTIONS
from kvtool.kernels.gpu.rotary import ELEMENTS, WARPS, load_halves, rotate, rounded, store_halves
from kvtool.kernels.gpu.store_kv import dynamic_scale, quantized, scale_strides, slot_offsets
from kvtool.kernels.gpu.tiles import current_target
from kvtool.kernels.kv_quantization import MAXIMA, Scale


def rotary_store_kv(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: Scale = 1.0,
    v_scale: Scale = 1.0,
    *,
    qk_norm: torch.Tensor | None = None,
    eps: float = 0.0,
) -> torch.Tensor:
    """Run `kvtool.kernels.rotary_store_kv.rotary_store_kv` as one launch, which reads qkv once; the queries are a new tensor."""
    check_projection(qkv, k_cache, qk_norm)
    check_rotation(qkv, cos, sin)
    kv_heads, page, dim = k_cache.shape[1:]
    q_heads = qkv.shape[1] - 2 * kv_heads
    k, v = qkv[:, q_heads:-kv_heads], qkv[:, -kv_heads:]
    check_new_tokens(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale)
    current_target().check_cache(k_cache.dtype)
    tokens, half = len(qkv), dim // 2
    q = qkv.new_empty(tokens, q_heads, dim)
    if not tokens:
        return q
    width = triton.next_power_of_2(half)
    rows = max(1, ELEMENTS // (2 * width))
    programs = triton.cdiv(tokens * q_heads, rows) + 2 * triton.cdiv(tokens * kv_heads, rows)
    _rotary_store_kv[(programs,)](
        qkv,
        cos,
        sin,
        q,
        k_cache,
        v_cache,
        k_scale,
        v_scale,
        slot_mapping,
        qk_norm,
        eps,
        tokens,
        *qkv.stride()[:2],
        cos.stride(0),
        sin.stride(0),
        0 if qk_norm is None else qk_norm.stride(0),
        *k_cache.stride()[:3],
        *v_cache.stride()[:3],
        *scale_strides(k_scale),
        *scale_strides(v_scale),
        Q_HEADS=q_heads,
        KV_HEADS=kv_heads,
        HALF=half,
        WIDTH=width,
        PAGE=page,
        ROWS=rows,
        LARGEST=MAXIMA.get(k_cache.dtype, 0.0),
        K_DYNAMIC=isinstance(k_scale, torch.Tensor),
        V_DYNAMIC=isinstance(v_scale, torch.Tensor),
        NORMED=qk_norm is not None,
        num_warps=WARPS,
        **OPTIONS,
    )
    return q


@triton.jit(do_not_specialize=["num_tokens"])
def _rotary_store_kv(
    qkv,  # [T, Q_HEADS + 2 * KV_HEADS, 2 * HALF]
    cos,  # [T, 1, 2 * HALF]
    sin,
    q,  # [T, Q_HEADS, 2 * HALF], contiguous
    k_cache,  # [NB, KV_HEADS, PAGE, 2 * HALF]
    v_cache,
    k_scale,  # a number, or f32[NB, KV_HEADS, PAGE]
    v_scale,
    slots,  # int64[T]
    qk_norm,  # [Q_HEADS + KV_HEADS, 2 * HALF], or None
    eps,
    num_tokens,
    stride_token,
    stride_head,
    cos_stride,
    sin_stride,
    norm_stride,
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
    Q_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    LARGEST: tl.constexpr,
    K_DYNAMIC: tl.constexpr,
    V_DYNAMIC: tl.constexpr,
    NORMED: tl.constexpr,
):
    """Process ROWS rows, each a token's head: the first programs have queries, the next keys, the last values."""
    program = tl.program_id(0)
    q_programs = tl.cdiv(num_tokens * Q_HEADS, ROWS)
    kv_programs = tl.cdiv(num_tokens * KV_HEADS, ROWS)
    if program < q_programs:
        row, token, head, dims, inside = _rows(program, num_tokens, Q_HEADS, HALF, WIDTH, ROWS)
        first, second = _rotated(
            qkv + token * stride_token + head * stride_head, cos + token * cos_stride, sin + token * sin_stride,
            qk_norm, head, norm_stride, eps, dims, inside, HALF, NORMED,
        )  # fmt: skip
        store_halves(q + row * (2 * HALF), dims, first, second, inside, HALF)
    elif program < q_programs + kv_programs:
        row, token, head, dims, inside = _rows(program - q_programs, num_tokens, KV_HEADS, HALF, WIDTH, ROWS)
        slot = tl.load(slots + token, mask=token < num_tokens, other=-1)
        first, second = _rotated(
            qkv + token * stride_token + (Q_HEADS + head) * stride_head,
            cos + token * cos_stride, sin + token * sin_stride,
            qk_norm, Q_HEADS + head, norm_stride, eps, dims, inside, HALF, NORMED,
        )  # fmt: skip
        _store_rows(
            first, second, slot, head, dims, inside, k_cache, k_scale,
            k_cache_stride_block, k_cache_stride_head, k_cache_stride_slot,
            k_scale_stride_block, k_scale_stride_head, k_scale_stride_slot, HALF, PAGE, LARGEST, K_DYNAMIC,
        )  # fmt: skip
    else:
        program -= q_programs + kv_programs
        row, token, head, dims, inside = _rows(program, num_tokens, KV_HEADS, HALF, WIDTH, ROWS)
        slot = tl.load(slots + token, mask=token < num_tokens, other=-1)
        rows = qkv + token * stride_token + (Q_HEADS + KV_HEADS + head) * stride_head
        first, second = load_halves(rows, dims, inside, HALF)
        _store_rows(
            first, second, slot, head, dims, inside, v_cache, v_scale,
            v_cache_stride_block, v_cache_stride_head, v_cache_stride_slot,
            v_scale_stride_block, v_scale_stride_head, v_scale_stride_slot, HALF, PAGE, LARGEST, V_DYNAMIC,
        )  # fmt: skip


@triton.jit
def _rows(program, num_tokens, HEADS: tl.constexpr, HALF: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Return numbers, tokens and heads of the program's rows; the columns of their halves; the mask of existing ones."""
    row = program.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    token = row // HEADS
    dims = tl.arange(0, WIDTH)
    inside = (token < num_tokens)[:, None]
    if HALF != WIDTH:
        inside = inside & (dims < HALF)[None, :]
    return row, token, row % HEADS, dims, inside


@triton.jit
def _rotated(
    rows,
    cos_rows,
    sin_rows,
    qk_norm,
    norm_head,
    norm_stride,
    eps,
    dims,
    inside,
    HALF: tl.constexpr,
    NORMED: tl.constexpr,
):
    """Return both halves of the rows, normed and rotated: f32 rounded to the bits of their own type, as in torch."""
    first, second = load_halves(rows, dims, inside, HALF)
    dtype: tl.constexpr = rows.dtype.element_ty
    if NORMED:
        weight_first, weight_second = load_halves(qk_norm + norm_head * norm_stride, dims, inside, HALF)
        squares = tl.sum(first * first, 1) + tl.sum(second * second, 1)
        factor = tl.rsqrt(squares / (2 * HALF) + eps)[:, None]
        first = rounded(rounded(first * factor, dtype) * weight_first, dtype)
        second = rounded(rounded(second * factor, dtype) * weight_second, dtype)
    return rotate(first, second, cos_rows, sin_rows, dims, inside, HALF, dtype)


@triton.jit
def _store_rows(
    first,
    second,
    slot,
    head,
    dims,
    inside,
    cache,
    scale,
    cache_stride_block,
    cache_stride_head,
    cache_stride_slot,
    scale_stride_block,
    scale_stride_head,
    scale_stride_slot,
    HALF: tl.constexpr,
    PAGE: tl.constexpr,
    LARGEST: tl.constexpr,
    DYNAMIC: tl.constexpr,
):
    kept = slot >= 0
    if LARGEST > 0:
        if DYNAMIC:
            largest = tl.max(tl.maximum(tl.abs(first), tl.abs(second)), 1)
            own = dynamic_scale(largest, LARGEST)
            scales = slot_offsets(slot, head, scale_stride_block, scale_stride_head, scale_stride_slot, PAGE)
            tl.store(scale + scales, own, mask=kept)
            scale = own[:, None]
        first = quantized(first, scale, LARGEST, cache.dtype.element_ty)
        second = quantized(second, scale, LARGEST, cache.dtype.element_ty)
    rows = cache + slot_offsets(slot, head, cache_stride_block, cache_stride_head, cache_stride_slot, PAGE)
    store_halves(rows, dims, first, second, inside & kept[:, None], HALF)
