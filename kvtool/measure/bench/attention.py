"""One layer's attention: its shape, and caches and queries of random numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvtool.engine.config import EngineConfig
from kvtool.kernels.kv_quantization import MAXIMA, Scale

SHORT = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    torch.int8: "int8",
}
"""How a type is named in tables."""

_FILLED_AT_ONCE = 1 << 28


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """One layer's attention; the default is Llama-3.1-8B's."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    block_size: int = EngineConfig.block_size
    dtype: torch.dtype = torch.bfloat16
    cache_dtype: torch.dtype | None = None
    """None: of `dtype`. int8 has a scale for each token and head."""

    @property
    def kept(self) -> torch.dtype:
        return self.cache_dtype or self.dtype

    @property
    def vector_bytes(self) -> int:
        """A key or a value of one token and head, with its scale."""
        return self.head_dim * self.kept.itemsize + (4 if self.kept == torch.int8 else 0)

    @property
    def kv_bytes_per_token(self) -> int:
        """K and V of one token."""
        return 2 * self.kv_heads * self.vector_bytes

    @property
    def query_bytes(self) -> int:
        """A token's query read and its output written."""
        return 2 * self.heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class BenchLayer:
    """One layer's cache, and queries [T, Hq, D]."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    k_scale: Scale = 1.0
    v_scale: Scale = 1.0

    @classmethod
    def random(cls, shape: AttentionShape, num_blocks: int, num_queries: int, device: torch.device) -> BenchLayer:
        caches = [
            random_cache((num_blocks, shape.kv_heads, shape.block_size, shape.head_dim), shape.kept, device)
            for _ in range(2)
        ]
        scales: list[Scale] = [1.0, 1.0]
        if shape.kept == torch.int8:
            scales = [torch.rand(caches[0].shape[:3], device=device) / 64 for _ in range(2)]
        q = torch.randn(num_queries, shape.heads, shape.head_dim, device=device).to(shape.dtype)
        return cls(q, *caches, *scales)


def random_cache(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Normal numbers, or all codes of int8; a few gigabytes at a time, so that the cache may be as large as the memory."""
    cache = torch.empty(shape, dtype=dtype, device=device)
    flat = cache.view(-1)
    for start in range(0, len(flat), _FILLED_AT_ONCE):
        piece = flat[start : start + _FILLED_AT_ONCE]
        if dtype == torch.int8:
            piece.random_(-127, 128)
        elif dtype in MAXIMA:
            piece.copy_(torch.randn(piece.shape, device=device))
        else:
            piece.normal_()
    return cache
