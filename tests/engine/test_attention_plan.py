"""A batch of decode, prefill and short questions on long documents, planned for a device with many processors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvtool.engine.attention.attention_plan import AttentionPlanner, attend
from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.batch import Batch
from kvtool.kernels import torch_twins
from kvtool.kernels.paged_attention import paged_attention

BLOCK, HEADS, KV_HEADS, DIM = 16, 4, 2, 16
COUNTS = (1, 5, 1, 40, 1)
LENGTHS = (1300, 1285, 700, 40, 1400)
SHARED = 40  # blocks that the first two of the single queries, and the question, begin with


def batch() -> Batch:
    blocks = [-(-length // BLOCK) for length in LENGTHS]
    table = np.zeros((len(LENGTHS), max(blocks)), dtype=np.int32)
    free = 1 + SHARED
    for row, count in enumerate(blocks):
        shared = SHARED if row != 3 else 0
        table[row, :shared] = range(1, 1 + shared)
        table[row, shared:count] = range(free, free + count - shared)
        free += count - shared
    query_start = np.concatenate([[0], np.cumsum(COUNTS)]).astype(np.int32)
    nothing = torch.empty(0, dtype=torch.int64)
    return Batch(
        input_ids=nothing,
        positions=nothing,
        slot_mapping=nothing,
        query_start=torch.from_numpy(query_start),
        seq_lens=torch.tensor(LENGTHS, dtype=torch.int32),
        block_table=torch.from_numpy(table),
        logits_at=nothing,
        sampled=(),
        num_blocks=free,
    )


@pytest.mark.parametrize("mode", ["flat", "prefix-aware"])
def test_all_parts_of_a_mixed_batch_come_together(mode: str) -> None:
    made = batch()
    decode = DecodePlanner(
        BLOCK,
        HEADS,
        KV_HEADS,
        DIM,
        vector_bytes=4 * DIM,
        mode=mode,  # type: ignore[arg-type]
        processors=132,
    )
    planner = AttentionPlanner(
        decode, torch.device("cpu"), tile_queries=8, num_kv_heads=KV_HEADS, block_size=BLOCK, processors=132
    )
    plan = planner.plan(made)
    assert (plan.tiles[:, 4] >= len(plan.query_index)).any()  # the question is cut into parts, behind those of decode
    assert len(plan.query_index) > COUNTS.count(1)  # and so is decode
    assert (plan.tiles[:, 4] == -1).any()
    random = torch.Generator().manual_seed(2)
    q = torch.randn(sum(COUNTS), HEADS, DIM, generator=random)
    k, v = (torch.randn(made.num_blocks, KV_HEADS, BLOCK, DIM, generator=random) for _ in range(2))
    partials = plan.partials(HEADS, DIM)
    for part in partials:
        part.fill_(torch.nan)
    found = attend(torch_twins, plan, partials, q, k, v, made, 1.0, 1.0)
    expected = paged_attention(q, k, v, made.block_table, made.query_start, made.seq_lens)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
