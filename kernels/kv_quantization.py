"""Store keys and values in fewer bits, and read them back (torch)."""

from __future__ import annotations

import torch

Scale = float | torch.Tensor
"""1.0 or another scale of a whole cache, or f32[num_blocks, Hkv, P]: one for each token and head, computed at the store."""

MAXIMA = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57_344.0, torch.int8: 127.0}
"""The largest magnitude that a quantized cache stores; caches of other types are not quantized."""

_LEAST_SCALE = torch.finfo(torch.float32).tiny  # below it, a quotient by the scale is not accurate any more


def dynamic_scale(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return f32[...] for x [..., D]: the scale with which the largest magnitude of each vector is stored as the type's largest."""
    largest = x.abs().amax(dim=-1).to(torch.float32)
    return (largest / MAXIMA[dtype]).clamp(min=_LEAST_SCALE)


def quantized(x: torch.Tensor, scale: Scale, dtype: torch.dtype) -> torch.Tensor:
    """Return x / scale in the cache's type, rounded to nearest; `scale` is a number or broadcasts over x.

    Quantized types clamp too large numbers to their largest magnitude: a cast alone would make them infinite or undefined.
    """
    largest = MAXIMA.get(dtype)
    if largest is None:
        return x.to(dtype)
    scaled = (
        x.to(torch.float32) if not isinstance(scale, torch.Tensor) and scale == 1.0 else x.to(torch.float32) / scale
    )
    if not dtype.is_floating_point:
        scaled = scaled.round()
    return scaled.clamp(-largest, largest).to(dtype)


def dequantized(x: torch.Tensor, scale: Scale, dtype: torch.dtype) -> torch.Tensor:
    """Return the numbers before `quantized`, as `dtype`; a cache of that very type is returned unchanged."""
    if x.dtype not in MAXIMA:
        return x.to(dtype)
    wide = x.to(torch.float32)
    return (wide if not isinstance(scale, torch.Tensor) and scale == 1.0 else wide * scale).to(dtype)


def storage_view(cache: torch.Tensor) -> torch.Tensor:
    """Return the cache as numbers that every device can index: some cannot index 8-bit floats."""
    return cache.view(torch.uint8) if cache.dtype in MAXIMA else cache
