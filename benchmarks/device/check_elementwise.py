"""Norms, rotation, activation and the store of keys and values, against float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch

from benchmarks.device import references
from benchmarks.device.check_attention import Extent
from benchmarks.device.checks import BOUNDS, QUANTIZED_BOUND, Check, checked, covering
from kvtool.kernels import torch_twins
from kvtool.kernels.kv_quantization import MAXIMA, Scale, dequantized, dynamic_scale, quantized, storage_view
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import SHORT, random_cache

_MOST_OTHER_CODES = 1e-3
"""Of the numbers that `store_kv` keeps in 8 bits: ties may be rounded either way."""


def elementwise_checks(kernels: Kernels, dtype: torch.dtype, extent: Extent, device: torch.device) -> Iterator[Check]:
    """Of the kernels between the matrix products, with inputs of one type."""
    tokens, hidden = (1000, 4096) if extent.realistic else (7, 96)
    for size in (hidden, 80):
        yield from checked(
            "rms_norm", dtype, f"{size}", device, partial(_check_norms, kernels, dtype, tokens, size, device)
        )
    for dim in extent.head_dims:
        run = partial(_check_head_norms, kernels, dtype, tokens, dim, device)
        yield from checked("rms_norm", dtype, f"heads of {dim}", device, run)
    for size in (14_336 if extent.realistic else 144, 96):
        yield from checked(
            "swiglu", dtype, f"{size}", device, partial(_check_swiglu, kernels, dtype, tokens, size, device)
        )


def store_checks(kernels: Kernels, dtype: torch.dtype, extent: Extent, device: torch.device) -> Iterator[Check]:
    """Of the two kernels that write the cache, with keys and values of one type."""
    others = tuple(kept for kept in (torch.float16, torch.bfloat16) if kept != dtype and extent.realistic)
    cases = covering((dtype, *extent.caches, *others), extent.head_dims, extent.block_sizes, (False, True), (1, 4))
    for seed, case in enumerate(cases[: 2 * extent.most_shapes]):
        kept, dim, block_size, normed, group = cast("tuple[torch.dtype, int, int, bool, int]", case)
        shape = (2 + extent.most_tokens // block_size, extent.kv_heads, block_size, dim)
        name = f"{SHORT[kept]} cache, D {dim}, P {block_size}"
        if not normed and group == 1:  # which are nothing to this kernel
            run = partial(_check_store, kernels, dtype, kept, shape, device, name, seed)
            yield from checked("store_kv", dtype, name, device, run)
        name += f", group {group}{', normed' if normed else ''}"
        fused = partial(_check_rotary_store, kernels, dtype, kept, shape, group, normed, device, name, seed)
        yield from checked("rotary_store_kv", dtype, name, device, fused)


def _check_norms(kernels: Kernels, dtype: torch.dtype, tokens: int, size: int, device: torch.device) -> Iterator[Check]:
    x, delta = (torch.randn(tokens, size, device=device).to(dtype) for _ in range(2))
    weight = (torch.rand(size, device=device) + 0.5).to(dtype)
    name = f"{tokens} x {size}"
    error = references.relative_error(kernels.rms_norm(x, weight, 1e-5), references.rms_norm(x, weight, 1e-5))
    yield Check("rms_norm", SHORT[dtype], name, error, BOUNDS[dtype])
    total, normed = kernels.add_rms_norm(x, delta, weight, 1e-5)
    error = references.relative_error(total, x.double() + delta.double())
    yield Check("add_rms_norm sum", SHORT[dtype], name, error, BOUNDS[dtype])
    error = references.relative_error(normed, references.rms_norm(total, weight, 1e-5))
    yield Check("add_rms_norm", SHORT[dtype], name, error, BOUNDS[dtype])


def _check_head_norms(
    kernels: Kernels, dtype: torch.dtype, tokens: int, dim: int, device: torch.device
) -> Iterator[Check]:
    """A slice of a projection, with a weight for each head, as Qwen3 norms queries and keys."""
    x = torch.randn(tokens, 9, dim, device=device).to(dtype)[:, :6]
    weight = (torch.rand(6, dim, device=device) + 0.5).to(dtype)
    error = references.relative_error(kernels.rms_norm(x, weight, 1e-6), references.rms_norm(x, weight, 1e-6))
    yield Check("rms_norm", SHORT[dtype], f"{tokens} x 6 x {dim}, a slice", error, BOUNDS[dtype])


def _check_swiglu(
    kernels: Kernels, dtype: torch.dtype, tokens: int, size: int, device: torch.device
) -> Iterator[Check]:
    gate_up = (torch.randn(tokens, 2 * size, device=device) * 3).to(dtype)
    error = references.relative_error(kernels.swiglu(gate_up), references.swiglu(gate_up))
    yield Check("swiglu", SHORT[dtype], f"{tokens} x {size}", error, BOUNDS[dtype])


@dataclass(frozen=True, slots=True)
class _Cache:
    """Random numbers, with scales of NaN: slots that nobody writes must keep their bits."""

    kept: tuple[torch.Tensor, torch.Tensor]
    scales: tuple[Scale, Scale]

    @classmethod
    def poisoned(cls, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> _Cache:
        scales: tuple[Scale, Scale] = (1.0, 1.0)
        if dtype == torch.int8:
            scales = tuple(torch.full(shape[:3], math.nan, device=device) for _ in range(2))  # type: ignore[assignment]  # two
        return cls((random_cache(shape, dtype, device), random_cache(shape, dtype, device)), scales)

    def copy(self) -> _Cache:
        k_scale, v_scale = (x.clone() if isinstance(x, torch.Tensor) else x for x in self.scales)
        return _Cache((self.kept[0].clone(), self.kept[1].clone()), (k_scale, v_scale))


def _slots(shape: tuple[int, ...], device: torch.device, seed: int) -> torch.Tensor:
    """int64[T]: half of the pool's slots in any order, every fifth token without one."""
    generator = torch.Generator().manual_seed(seed)
    count = shape[0] * shape[2]
    slots = torch.randperm(count, generator=generator)[: count // 2]
    slots[::5] = -1
    return slots.to(device)


def _check_store(
    kernels: Kernels,
    dtype: torch.dtype,
    kept: torch.dtype,
    shape: tuple[int, int, int, int],
    device: torch.device,
    name: str,
    seed: int,
) -> Iterator[Check]:
    """The same bits as torch's, but for ties in 8 bits; slots that no token has keep theirs."""
    slots = _slots(shape, device, seed)
    # As a model has them: slices of one projection.
    kv = (torch.randn(len(slots), 3 * shape[1], shape[3], device=device) * 4).to(dtype)
    k, v = kv[:, : shape[1]], kv[:, -shape[1] :]
    cache = _Cache.poisoned(shape, kept, device)
    expected = cache.copy()
    kernels.store_kv(k, v, *cache.kept, slots, *cache.scales)
    torch_twins.store_kv(k, v, *expected.kept, slots, *expected.scales)
    most_other = _MOST_OTHER_CODES if kept in MAXIMA else 0.0
    written = torch.zeros(shape[0] * shape[2], dtype=torch.bool, device=device)
    written[slots[slots >= 0]] = True
    written = written.view(shape[0], 1, shape[2], 1)
    for which, kernel in enumerate(("store_kv k", "store_kv v")):
        found, wanted = (_words(x.kept[which]) for x in (cache, expected))
        differs = found != wanted
        other = float(differs.double().mean())
        note = f"{other:.1e} of the numbers are other ones" if other > most_other else ""
        note = note or ("slots that no token has are written" if bool((differs & ~written).any()) else "")
        scales = _scale_error(cache.scales[which], expected.scales[which])
        note = note or (f"scales are off by {scales:.1e}" if not scales < 1e-6 else "")
        error = references.relative_error(*(dequantized(x.kept[which], 1.0, torch.float32) for x in (cache, expected)))
        yield Check(kernel, SHORT[dtype], name, error, QUANTIZED_BOUND if kept in MAXIMA else 0.0, note)


def _words(x: torch.Tensor) -> torch.Tensor:
    """The bits, which can be compared where numbers cannot (NaN)."""
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[x.dtype.itemsize])


def _scale_error(found: Scale, expected: Scale) -> float:
    """Relative; untouched ones are NaN in both, and stay so."""
    if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return 0.0
    if not bool((found.isnan() == expected.isnan()).all()):
        return math.inf
    return references.relative_error(found.nan_to_num(0.0), expected.nan_to_num(0.0))


def _check_rotary_store(
    kernels: Kernels,
    dtype: torch.dtype,
    kept: torch.dtype,
    shape: tuple[int, int, int, int],
    group: int,
    normed: bool,
    device: torch.device,
    name: str,
    seed: int,
) -> Iterator[Check]:
    """Queries against float64. Keys and values too, where what counts is how much worse they are kept than they could be: the
    error of the nearest numbers that the cache's type has is nobody's fault."""
    _, kv_heads, block_size, dim = shape
    q_heads = group * kv_heads
    slots = _slots(shape, device, seed)
    qkv = (torch.randn(len(slots), q_heads + 2 * kv_heads, dim, device=device) * 2).to(dtype)
    angle = torch.rand(len(slots), 1, dim // 2, device=device) * 2 * math.pi
    cos, sin = (torch.cat(halves, dim=-1).to(dtype) for halves in ((angle.cos(),) * 2, (-angle.sin(), angle.sin())))
    weight = (torch.rand(q_heads + kv_heads, dim, device=device) + 0.5).to(dtype) if normed else None
    cache = _Cache.poisoned(shape, kept, device)
    before = cache.copy()
    q = kernels.rotary_store_kv(qkv, cos, sin, *cache.kept, slots, *cache.scales, qk_norm=weight, eps=1e-6)
    qk: torch.Tensor = qkv[:, : q_heads + kv_heads]
    qk = references.rms_norm(qk, weight, 1e-6) if weight is not None else qk
    qk = references.rotated(qk, cos, sin)
    error = references.relative_error(q, qk[:, :q_heads])
    yield Check("rotary_store_kv q", SHORT[dtype], name, error, BOUNDS[dtype])
    keep = slots >= 0
    block, offset = slots[keep] // block_size, slots[keep] % block_size
    stored = torch.zeros(shape[0], block_size, dtype=torch.bool, device=device)
    stored[block, offset] = True
    for which, (kernel, exact) in enumerate(
        (("rotary_store_kv k", qk[:, q_heads:]), ("rotary_store_kv v", qkv[:, -kv_heads:].double()))
    ):
        exact, scale = exact[keep], cache.scales[which]
        best: Scale = 1.0
        if isinstance(scale, torch.Tensor):
            best, scale = dynamic_scale(exact, kept)[..., None], scale[block, :, offset][..., None]
        nearest = dequantized(quantized(exact.float(), best, kept), best, torch.float64)
        found = storage_view(cache.kept[which])[block, :, offset]
        found = dequantized(found.view(kept), scale, torch.float64)
        error = references.relative_error(found, exact)
        if kept in MAXIMA:
            error = error - references.relative_error(nearest, exact)  # NaN stays NaN
        untouched = (_words(x).transpose(1, 2)[~stored] for x in (cache.kept[which], before.kept[which]))
        note = "" if torch.equal(*untouched) else "slots of no token were written"
        limit = QUANTIZED_BOUND if kept in MAXIMA else max(BOUNDS[dtype], BOUNDS[kept])
        yield Check(kernel, SHORT[dtype], name, error, limit, note)
