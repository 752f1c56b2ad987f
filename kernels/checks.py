"""Check the arguments of every kernel before it starts; a ValueError names the contradicting figures.

Shapes, types and strides are always checked. Values of index tensors are checked on the CPU, where they are made: reading a tensor
on an accelerator would wait for it.
"""

from __future__ import annotations

import math

import torch

from kvtool.kernels.kv_quantization import MAXIMA, Scale

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_CACHES = (*_FLOATS, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)


def check_shape(name: str, x: torch.Tensor, *shape: int | None) -> None:
    """Check that `x` has as many dimensions as `shape`, of these sizes; None is any."""
    if x.shape == shape:
        return
    if x.dim() != len(shape) or any(want not in (None, has) for want, has in zip(shape, x.shape, strict=True)):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must be [{wanted}], not {list(x.shape)}")


def check_rows(name: str, x: torch.Tensor) -> None:
    """Check that the numbers of the last dimension are contiguous."""
    if x.stride(-1) != 1 and x.shape[-1] > 1:
        raise ValueError(f"{name} must be contiguous in its last dimension, not have strides {list(x.stride())}")


def check_heads(name: str, x: torch.Tensor, *, written: bool = False) -> None:
    """Check rows of heads: one index of the first dimension spans at most 2^31 numbers, the reach of an int32 offset. If the
    tensor is `written`, no two elements share their memory."""
    check_rows(name, x)
    sizes, strides = x.shape[1:], x.stride()[1:]
    if sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) >= 2**31:
        raise ValueError(f"{name} has strides {list(x.stride())}: its heads lie more than 2^31 numbers apart")
    if written and any(size > 1 and not stride for size, stride in zip(x.shape, x.stride(), strict=True)):
        raise ValueError(f"{name} is written, but elements share memory by its strides {list(x.stride())}")


def check_devices(**tensors: torch.Tensor | float | None) -> None:
    """Check that all tensors are on one device."""
    found = {name: x.device for name, x in tensors.items() if isinstance(x, torch.Tensor)}
    if len(set(found.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in found.items())
        raise ValueError(f"tensors must be on one device, not {places}")


def check_type(name: str, x: torch.Tensor, *allowed: torch.dtype) -> None:
    if x.dtype not in allowed:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
        raise ValueError(f"{name} must be {names}, not {str(x.dtype).removeprefix('torch.')}")


def check_indices(name: str, x: torch.Tensor, *shape: int | None, dtype: torch.dtype = torch.int32) -> None:
    """Check an index tensor: its shape, contiguous."""
    check_type(name, x, dtype)
    check_shape(name, x, *shape)
    if not x.is_contiguous():
        raise ValueError(f"{name} must be contiguous, not have strides {list(x.stride())}")


def check_range(name: str, x: torch.Tensor, low: int, high: int) -> None:
    """Check that every number is in [low, high); tensors outside of the CPU are not checked."""
    if x.device.type != "cpu" or not x.numel():
        return
    least, most = (int(value) for value in torch.aminmax(x))
    if least < low or most >= high:
        raise ValueError(f"{name} has {least if least < low else most}, which is not in [{low}, {high})")


def check_caches(k_cache: torch.Tensor, v_cache: torch.Tensor, k_scale: Scale, v_scale: Scale) -> None:
    """Check two caches [num_blocks, Hkv, P, D] of one type, and their scales."""
    if k_cache.dim() != 4 or not k_cache.shape[1] * k_cache.shape[2] * k_cache.shape[3]:
        raise ValueError(f"k_cache must be [num_blocks, Hkv, P, D] with nothing empty, not {list(k_cache.shape)}")
    check_shape("v_cache", v_cache, *k_cache.shape)
    check_type("k_cache", k_cache, *_CACHES)
    check_type("v_cache", v_cache, k_cache.dtype)
    for name, cache, scale in (("k", k_cache, k_scale), ("v", v_cache, v_scale)):
        check_heads(f"{name}_cache", cache, written=True)
        if isinstance(scale, torch.Tensor):
            check_type(f"{name}_scale", scale, torch.float32)
            check_shape(f"{name}_scale", scale, *cache.shape[:3])
            check_heads(f"{name}_scale", scale, written=True)
            check_rows(f"{name}_scale", scale)


def check_queries(q: torch.Tensor, k_cache: torch.Tensor) -> None:
    """Check q [T, Hq, D]: its heads are shared out evenly among the cache's."""
    check_type("q", q, *_FLOATS)
    check_shape("q", q, None, None, k_cache.shape[3])
    check_heads("q", q)
    if q.shape[1] % k_cache.shape[1] or not q.shape[1]:
        raise ValueError(f"{q.shape[1]} query heads cannot share {k_cache.shape[1]} K/V heads evenly")


def check_new_tokens(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: Scale,
    v_scale: Scale,
) -> None:
    """Check k, v [T, Hkv, D] that go to slots of the caches."""
    check_caches(k_cache, v_cache, k_scale, v_scale)
    num_blocks, kv_heads, page, dim = k_cache.shape
    for name, x in (("k", k), ("v", v)):
        check_type(name, x, *_FLOATS)
        check_shape(name, x, len(k), kv_heads, dim)
        check_heads(name, x)
    check_type("v", v, k.dtype)
    check_devices(
        k=k, v=v, k_cache=k_cache, v_cache=v_cache, slot_mapping=slot_mapping, k_scale=k_scale, v_scale=v_scale
    )
    check_indices("slot_mapping", slot_mapping, len(k), dtype=torch.int64)
    check_range("slot_mapping", slot_mapping, -1, num_blocks * page)
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        if isinstance(scale, torch.Tensor):
            if k_cache.dtype not in MAXIMA:
                raise ValueError(f"{name} is a tensor, but a cache of {k_cache.dtype} is not quantized")
        elif not 0 < scale < math.inf:
            raise ValueError(f"{name} must be a positive number, not {scale}")


def check_rotation(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Check x [T, H, D] with an even D; cos and sin [T, 1, D] of its type."""
    check_type("x", x, *_FLOATS)
    check_shape("x", x, None, None, None)
    check_rows("x", x)
    tokens, _, dim = x.shape
    if dim % 2 or not dim:
        raise ValueError(f"{dim} elements of a head cannot be paired")
    for name, factor in (("cos", cos), ("sin", sin)):
        check_type(name, factor, x.dtype)
        check_shape(name, factor, tokens, 1, dim)
        check_rows(name, factor)


def check_projection(qkv: torch.Tensor, k_cache: torch.Tensor, qk_norm: torch.Tensor | None) -> None:
    """Check qkv [T, Hq + 2 * Hkv, D] for the cache's Hkv; qk_norm [Hq + Hkv, D]."""
    if qkv.dim() != 3 or k_cache.dim() != 4:
        raise ValueError(
            f"qkv and k_cache must have 3 and 4 dimensions, not be {list(qkv.shape)} and {list(k_cache.shape)}"
        )
    kv_heads = k_cache.shape[1]
    if qkv.shape[1] <= 2 * kv_heads:
        raise ValueError(
            f"qkv has {qkv.shape[1]} heads, but {2 * kv_heads} are keys and values: none is left for queries"
        )
    if qk_norm is not None:
        check_type("qk_norm", qk_norm, qkv.dtype)
        check_shape("qk_norm", qk_norm, qkv.shape[1] - kv_heads, qkv.shape[2])
        check_rows("qk_norm", qk_norm)


def check_norm(x: torch.Tensor, weight: torch.Tensor) -> None:
    """Check x [..., D] and weight [D], or x [..., H, D] and weight [H, D], of one type."""
    check_type("x", x, *_FLOATS)
    check_type("weight", weight, x.dtype)
    if weight.dim() not in (1, 2) or x.dim() < weight.dim() or x.shape[-weight.dim() :] != weight.shape:
        raise ValueError(
            f"weight must be the last one or two dimensions of x, {list(x.shape)}, not {list(weight.shape)}"
        )
    if not x.shape[-1]:
        raise ValueError("x has empty rows, which have no norm")
    check_rows("x", x)
    check_rows("weight", weight)


def check_summands(x: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor) -> None:
    """Check x, delta [T, D] and weight [D] of one type."""
    check_shape("x", x, None, None)
    check_shape("weight", weight, None)
    check_norm(x, weight)
    check_shape("delta", delta, *x.shape)
    check_type("delta", delta, x.dtype)
    check_rows("delta", delta)


def check_gate_up(gate_up: torch.Tensor) -> None:
    """Check gate_up [T, 2 * I]."""
    check_type("gate_up", gate_up, *_FLOATS)
    check_shape("gate_up", gate_up, None, None)
    check_rows("gate_up", gate_up)
    if gate_up.shape[1] % 2:
        raise ValueError(f"{gate_up.shape[1]} columns are not as many gates as values")


def check_parts(
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    part_start: torch.Tensor,
    part_index: torch.Tensor,
    out_rows: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Check partial_out f32[R, Hq, D], partial_lse f32[R, Hq] and their rows for each row of out [T, Hq, D]."""
    check_type("partial_out", partial_out, torch.float32)
    check_type("partial_lse", partial_lse, torch.float32)
    check_type("out", out, *_FLOATS)
    check_shape("out", out, None, None, None)
    check_shape("partial_out", partial_out, None, *out.shape[1:])
    check_shape("partial_lse", partial_lse, *partial_out.shape[:2])
    check_heads("partial_out", partial_out)
    check_rows("partial_lse", partial_lse)
    check_heads("out", out, written=True)
    check_devices(
        partial_out=partial_out,
        partial_lse=partial_lse,
        part_start=part_start,
        part_index=part_index,
        out_rows=out_rows,
        out=out,
    )
    check_indices("out_rows", out_rows, None)
    check_indices("part_start", part_start, len(out_rows) + 1)
    check_indices("part_index", part_index, None)
    if part_start.device.type != "cpu":
        return
    counts = part_start.diff()
    check_range("part_start", part_start, 0, len(part_index) + 1)
    if bool((counts < 0).any()):
        raise ValueError(
            f"part_start descends by {-int(counts.min())}: it says where each row's parts begin, one after the other"
        )
    check_range("part_index", part_index[int(part_start[0]) : int(part_start[-1])], 0, len(partial_out))
    check_range("out_rows", out_rows[counts > 0], 0, len(out))
