"""How long the kernels between the matrix products take, beside torch's and beside what their bytes take at least."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch.nn import functional

from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import SHORT, AttentionShape, BenchLayer, WriteResult, random_slots, rotated_layers
from kvtool.measure.bench.this_machine import Ceilings
from kvtool.measure.bench.timing import Call, layers_to_rotate, measure, release

_EPS = 1e-5


def measure_rotary_store(
    kernels: Kernels,
    shape: AttentionShape,
    tokens: int,
    ceilings: Ceilings,
    device: torch.device,
    *,
    seconds: float = 0.05,
    most_layers: int = 32,
) -> WriteResult:
    """Rotation and store in one kernel, beside one kernel for each."""
    heads = shape.heads + 2 * shape.kv_heads
    vectors = tokens * (heads + shape.heads + 2) * shape.head_dim  # the projection, the queries, cos and sin
    num_bytes = vectors * shape.dtype.itemsize + tokens * (shape.kv_bytes_per_token + 8)
    layers = rotated_layers(shape, tokens, num_bytes, device, most_layers)
    slots = random_slots(shape, tokens, device)
    cos, sin = (torch.randn(tokens, 1, shape.head_dim, device=device).to(shape.dtype) for _ in range(2))
    projected = [torch.randn(tokens, heads, shape.head_dim, device=device).to(shape.dtype) for _ in layers]

    def separately(qkv: torch.Tensor, layer: BenchLayer) -> None:
        qk = kernels.rotary(qkv[:, : -shape.kv_heads], cos, sin)
        k, v = qk[:, shape.heads :], qkv[:, -shape.kv_heads :]
        kernels.store_kv(k, v, layer.k_cache, layer.v_cache, slots, layer.k_scale, layer.v_scale)

    fused = [
        partial(kernels.rotary_store_kv, qkv, cos, sin, x.k_cache, x.v_cache, slots, x.k_scale, x.v_scale)
        for qkv, x in zip(projected, layers, strict=True)
    ]
    apart = [partial(separately, qkv, layer) for qkv, layer in zip(projected, layers, strict=True)]
    return WriteResult(
        f"rotary_store_kv {SHORT[shape.kept]}",
        tokens,
        num_bytes,
        ceilings.memory_floor(num_bytes),
        measure(fused, device, seconds=seconds),
        {"two kernels": measure(apart, device, seconds=seconds)},
    )


def measure_norms(
    kernels: Kernels,
    dtype: torch.dtype,
    tokens: int,
    hidden: int,
    inner: int,
    ceilings: Ceilings,
    device: torch.device,
    *,
    seconds: float = 0.05,
    most_layers: int = 32,
) -> list[WriteResult]:
    """rms_norm, add_rms_norm and swiglu beside torch's own functions."""

    def several(columns: int, num_bytes: int) -> list[torch.Tensor]:
        count = layers_to_rotate(num_bytes, device, most=most_layers)
        return [torch.randn(tokens, columns, device=device).to(dtype) for _ in range(count)]

    weight = torch.rand(hidden, device=device).to(dtype)

    def torch_add_norm(x: torch.Tensor, delta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + delta
        return total, functional.rms_norm(total, (hidden,), weight, _EPS)

    def torch_swiglu(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return functional.silu(gate) * up

    one = tokens * hidden * dtype.itemsize
    gated = tokens * inner * dtype.itemsize
    x = several(hidden, 2 * one)
    wide = several(2 * inner, 3 * gated)

    def result(name: str, num_bytes: int, ours: Sequence[Call], theirs: Sequence[Call]) -> WriteResult:
        timing, other = (measure(calls, device, seconds=seconds) for calls in (ours, theirs))
        return WriteResult(name, tokens, num_bytes, ceilings.memory_floor(num_bytes), timing, {"torch": other})

    found = [
        result(
            "rms_norm",
            2 * one,
            [partial(kernels.rms_norm, row, weight, _EPS) for row in x],
            [partial(functional.rms_norm, row, (hidden,), weight, _EPS) for row in x],
        ),
        result(
            "add_rms_norm",
            4 * one,
            [partial(kernels.add_rms_norm, row, x[index - 1], weight, _EPS) for index, row in enumerate(x)],
            [partial(torch_add_norm, row, x[index - 1]) for index, row in enumerate(x)],
        ),
        result(
            "swiglu",
            3 * gated,
            [partial(kernels.swiglu, row) for row in wide],
            [partial(torch_swiglu, row) for row in wide],
        ),
    ]
    del x, wide
    release(device)
    return found
