"""The only place where a step becomes tensors; one ragged form for prefill, chunked prefill, prefix hits and decode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from kvtool.engine.blocks.block_tables import BlockTables
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled

Owner = tuple[Request, int]
"""A request, and how often it was preempted: as long as that stays, its blocks only get more."""


def needs_logits(item: Scheduled) -> bool:
    """Return whether the model must compute the next token.

    Forced tokens need no logits, but the first one gets them all the same: TTFT measures the time to it.
    """
    return item.samples and (not item.request.outputs or item.request.next_forced() is None)


@dataclass(frozen=True, slots=True)
class Batch:
    """n scheduled requests with T tokens in all, one request after the other.

    Token t of request i is at `positions[t]` of its sequence, and its K/V go to `slot_mapping[t]` = block * P + offset.
    """

    input_ids: torch.Tensor  # int64[T]
    positions: torch.Tensor  # int64[T]
    slot_mapping: torch.Tensor  # int64[T]
    query_start: torch.Tensor  # int32[n + 1]: request i has tokens [query_start[i], query_start[i + 1])
    seq_lens: torch.Tensor  # int32[n]: tokens of request i that are computed when the step is done
    block_table: torch.Tensor  # int32[n, most blocks]; rows are padded with the null block
    logits_at: torch.Tensor  # int64[number of logits]: tokens with needed logits, ascending
    sampled: tuple[int, ...]  # the requests that `logits_at` belongs to
    num_blocks: int  # highest block id in use, plus one
    owners: tuple[Owner, ...] = ()  # of each request, where it is known

    @classmethod
    def build(cls, step: EngineStep, block_size: int, tables: BlockTables | None = None) -> Batch:
        """Return tensors on the CPU for a step that schedules at least one token; `tables` remembers the steps before."""
        items = step.scheduled
        counts = np.array([item.num_tokens for item in items], dtype=np.int64)
        starts = np.array([item.start for item in items], dtype=np.int64)
        query_start = np.concatenate([[0], np.cumsum(counts)])
        seq_lens = starts + counts
        tables = tables or BlockTables()
        block_table = tables.table([item.request for item in items], (-(-seq_lens // block_size)).astype(np.int32))
        row = np.repeat(np.arange(len(items)), counts)
        positions = np.arange(query_start[-1]) + (starts - query_start[:-1])[row]
        blocks = block_table[row, positions // block_size].astype(np.int64)
        assert blocks.min() > 0, "the null block is nobody's to write"
        input_ids = np.concatenate([item.request.token_ids(item.start, item.start + item.num_tokens) for item in items])
        sampled = tuple(index for index, item in enumerate(items) if needs_logits(item))
        return cls(
            input_ids=torch.from_numpy(input_ids.astype(np.int64)),
            positions=torch.from_numpy(positions),
            slot_mapping=torch.from_numpy(blocks * block_size + positions % block_size),
            query_start=torch.from_numpy(query_start.astype(np.int32)),
            seq_lens=torch.from_numpy(seq_lens.astype(np.int32)),
            block_table=torch.from_numpy(block_table),
            logits_at=torch.from_numpy(query_start[1:][list(sampled)] - 1),
            sampled=sampled,
            num_blocks=int(block_table.max()) + 1,
            owners=tuple((item.request, item.request.num_preemptions) for item in items),
        )

    def of_logits(self) -> Batch:
        """Return one query for each of `logits_at`, in its request, over the tokens up to its own."""
        positions = self.positions[self.logits_at]
        query_start = torch.arange(len(positions) + 1, dtype=torch.int32, device=positions.device)
        return Batch(
            input_ids=self.input_ids[self.logits_at],
            positions=positions,
            slot_mapping=self.slot_mapping[self.logits_at],
            query_start=query_start,
            seq_lens=positions.int() + 1,
            block_table=self.block_table[list(self.sampled)],
            logits_at=query_start[:-1].long(),
            sampled=tuple(range(len(self.sampled))),
            num_blocks=self.num_blocks,
            owners=tuple(self.owners[index] for index in self.sampled) if self.owners else (),
        )

    def to(self, device: torch.device) -> Batch:
        """Return the same batch with its tensors on `device`."""
        if device == self.input_ids.device:
            return self
        return Batch(
            input_ids=self.input_ids.to(device),
            positions=self.positions.to(device),
            slot_mapping=self.slot_mapping.to(device),
            query_start=self.query_start.to(device),
            seq_lens=self.seq_lens.to(device),
            block_table=self.block_table.to(device),
            logits_at=self.logits_at.to(device),
            sampled=self.sampled,
            num_blocks=self.num_blocks,
            owners=self.owners,
        )
