"""A batch's attention: requests with one query as work items of `paged_decode`, the others as tiles of `paged_prefill`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.attention.prefill_plan import plan_prefill
from kvtool.engine.batch import Batch
from kvtool.kernels.attention_rule import PLAIN_RULE, AttentionRule
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.paged_attention import paged_attention
from kvtool.kernels.protocol import Kernels


@dataclass(frozen=True, slots=True)
class Phase:
    """One launch of `paged_decode`."""

    items: torch.Tensor  # int32[n, 4]
    most_queries: int


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Index tensors, made once for a step and used by every layer; the kernels' docstrings describe them."""

    tiles: torch.Tensor  # int32[m, 5]
    tile_queries: int
    phases: tuple[Phase, ...]
    query_index: torch.Tensor
    block_index: torch.Tensor
    part_start: torch.Tensor
    part_index: torch.Tensor
    out_rows: torch.Tensor
    num_parts: int

    def partials(self, heads: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return memory for partial results and their log-sum-exps, which one layer after the other uses."""
        device = self.tiles.device
        return (
            torch.empty(self.num_parts, heads, head_dim, device=device),
            torch.empty(self.num_parts, heads, device=device),
        )


class AttentionPlanner:
    """Make the plans of one model on one device."""

    def __init__(
        self,
        decode: DecodePlanner,
        device: torch.device,
        *,
        tile_queries: int,
        num_kv_heads: int,
        block_size: int,
        processors: int,
    ) -> None:
        """Create the planner. `tile_queries` is the kernels' `prefill_queries`; `processors` counts the device's program slots."""
        self.decode = decode
        self._device = device
        self._tile_queries = tile_queries
        self._num_kv_heads = num_kv_heads
        self._block_size = block_size
        self._processors = processors

    def plan(self, batch: Batch) -> AttentionPlan:
        """Return the plan of a batch whose tensors are on the CPU."""
        query_start, seq_lens, table = batch.query_start.numpy(), batch.seq_lens.numpy(), batch.block_table.numpy()
        counts = query_start[1:] - query_start[:-1]
        single, several = np.flatnonzero(counts == 1), np.flatnonzero(counts > 1).astype(np.int32)
        decode = self.decode.plan(table[single], seq_lens[single], query_start[single])
        prefill = plan_prefill(
            several,
            query_start,
            seq_lens,
            self._tile_queries,
            num_kv_heads=self._num_kv_heads,
            block_size=self._block_size,
            processors=self._processors,
            first_part=len(decode.query_index),
        )
        return AttentionPlan(
            tiles=self._upload(prefill.tiles),
            tile_queries=self._tile_queries,
            phases=tuple(Phase(self._upload(phase.items), phase.most_queries) for phase in decode.phases),
            query_index=self._upload(decode.query_index),
            block_index=self._upload(decode.block_index),
            part_start=self._upload(
                np.concatenate([decode.part_start, decode.part_start[-1:] + prefill.part_start[1:]])
            ),
            part_index=self._upload(np.concatenate([decode.part_index, prefill.part_index])),
            out_rows=self._upload(np.concatenate([decode.out_rows, prefill.out_rows])),
            num_parts=len(decode.query_index) + prefill.num_parts,
        )

    def _upload(self, array: npt.NDArray[np.int32]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def attend(
    kernels: Kernels,
    plan: AttentionPlan | None,
    partials: tuple[torch.Tensor, torch.Tensor] | None,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    batch: Batch,
    k_scale: Scale,
    v_scale: Scale,
    rule: AttentionRule = PLAIN_RULE,
) -> torch.Tensor:
    """Return attention output [T, Hq, D] of a layer. Without a plan, torch computes request after request; plans are for the plain
    rule."""
    if plan is None or partials is None:
        return paged_attention(
            q,
            k_cache,
            v_cache,
            batch.block_table,
            batch.query_start,
            batch.seq_lens,
            k_scale=k_scale,
            v_scale=v_scale,
            rule=rule,
        )
    assert rule == PLAIN_RULE, "the kernels that work by a plan know no other"
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if len(plan.tiles):
        kernels.paged_prefill(
            q,
            k_cache,
            v_cache,
            batch.block_table,
            batch.query_start,
            batch.seq_lens,
            plan.tiles,
            plan.tile_queries,
            out,
            *partials,
            k_scale=k_scale,
            v_scale=v_scale,
        )
    for phase in plan.phases:
        kernels.paged_decode(
            q,
            k_cache,
            v_cache,
            phase.items,
            plan.query_index,
            plan.block_index,
            phase.most_queries,
            *partials,
            k_scale=k_scale,
            v_scale=v_scale,
        )
    if len(plan.out_rows):
        kernels.merge_states(*partials, plan.part_start, plan.part_index, plan.out_rows, out)
    return out
