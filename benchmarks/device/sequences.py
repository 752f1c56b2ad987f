"""Attention as the engine runs it, on random numbers: what the checks and the decode and prefill measurements have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from kvtool.engine.attention.attention_plan import AttentionPlan, AttentionPlanner, attend
from kvtool.engine.attention.decode_plan import Int32
from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.batch import Batch
from kvtool.engine.config import DecodeMode
from kvtool.engine.model.device import processors
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import AttentionShape, BenchLayer
from kvtool.measure.bench.timing import Call

MODES: tuple[DecodeMode, ...] = ("flat", "prefix-aware", "auto")
"""How decode can read what sequences share."""


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
