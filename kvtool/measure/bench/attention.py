"""Attention as the engine runs it, on caches of random numbers: what the decode and prefill measurements have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from kvtool.engine.attention.attention_plan import AttentionPlan, AttentionPlanner, attend
from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.batch import Batch
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.model.device import processors
from kvtool.kernels.kv_quantization import MAXIMA, Scale
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.timing import Call

SHORT = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    torch.int8: "int8",
}
"""How a type is named in tables."""

Int32 = npt.NDArray[np.int32]

MODES: tuple[DecodeMode, ...] = ("flat", "prefix-aware", "auto")
"""How decode can read what sequences share."""

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
class Sequences:
    """n sequences whose last `counts` tokens are queries; blocks lie anywhere in a pool of `num_blocks`, null block included."""

    counts: Int32  # [n]
    lengths: Int32  # [n]
    block_table: Int32  # [n, most blocks]
    num_blocks: int

    @classmethod
    def sharing(
        cls, counts: Sequence[int], lengths: Sequence[int], shared: int, block_size: int, seed: int = 0
    ) -> Sequences:
        """All begin with the same `shared` tokens, a multiple of the block size; the rest of each is its own."""
        assert shared % block_size == 0
        assert shared <= min(lengths)
        blocks = -(-np.array(lengths) // block_size)
        own = blocks - shared // block_size
        pool = 1 + np.random.default_rng(seed).permutation(shared // block_size + int(own.sum())).astype(np.int32)
        table = np.zeros((len(lengths), int(blocks.max())), dtype=np.int32)
        common, rest = pool[: shared // block_size], pool[shared // block_size :]
        for row, mine in zip(
            table, (rest[end - count : end] for end, count in zip(np.cumsum(own), own, strict=True)), strict=True
        ):
            row[: len(common)] = common
            row[len(common) : len(common) + len(mine)] = mine
        return cls(np.array(counts, dtype=np.int32), np.array(lengths, dtype=np.int32), table, len(pool) + 1)

    @property
    def num_queries(self) -> int:
        return int(self.counts.sum())

    def batch(self) -> Batch:
        """For planners and kernels: what a model would want of the tokens besides is left 0. Tensors are on the CPU."""
        tokens = torch.zeros(self.num_queries, dtype=torch.int64)
        query_start = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int32)
        return Batch(
            input_ids=tokens,
            positions=tokens,
            slot_mapping=tokens,
            query_start=torch.from_numpy(query_start),
            seq_lens=torch.from_numpy(self.lengths),
            block_table=torch.from_numpy(self.block_table),
            logits_at=tokens[:0],
            sampled=(),
            num_blocks=self.num_blocks,
        )


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


def attention_planner(
    kernels: Kernels, shape: AttentionShape, mode: DecodeMode, device: torch.device, busy: int | None = None
) -> AttentionPlanner:
    """As the engine makes it; `mode` is flat, prefix-aware or auto. `busy`: processors of another device to plan for."""
    programs = busy or processors(device)
    decode = DecodePlanner(
        shape.block_size,
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        vector_bytes=shape.vector_bytes,
        mode=mode,
        processors=programs,
    )
    return AttentionPlanner(
        decode,
        device,
        tile_queries=kernels.prefill_queries(shape.dtype, shape.heads // shape.kv_heads, shape.head_dim, shape.kept),
        num_kv_heads=shape.kv_heads,
        block_size=shape.block_size,
        processors=programs,
    )


def attention_calls(kernels: Kernels, plan: AttentionPlan, batch: Batch, layers: Sequence[BenchLayer]) -> list[Call]:
    """One call per layer: all launches of its attention. `batch` is on the device; partial results share their memory."""
    heads, head_dim = layers[0].q.shape[1:]
    partials = plan.partials(heads, head_dim)
    return [
        partial(
            attend,
            kernels,
            plan,
            partials,
            layer.q,
            layer.k_cache,
            layer.v_cache,
            batch,
            layer.k_scale,
            layer.v_scale,
        )
        for layer in layers
    ]
