"""What decode reads is what its plan says: a shared prefix once, each sequence's own tokens once, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvtool.engine.attention.decode_plan import DecodePlan
from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.config import DecodeMode
from kvtool.kernels.gpu.merge_states import merge_states
from kvtool.kernels.gpu.paged_decode import paged_decode
from kvtool.kernels.paged_attention import paged_attention
from tests.kernels.interpreter import Traffic, sanitize

BLOCK, HEADS, KV_HEADS, DIM = 16, 4, 2, 32
PREFIX = 5 * BLOCK
OWN = (1, 16, 23, 40)


def batch() -> tuple[np.ndarray, np.ndarray]:
    """A block table of sequences with the same first five blocks, scattered; and their lengths."""
    free = list(np.random.default_rng(5).permutation(np.arange(1, 20)))
    prefix = [free.pop() for _ in range(PREFIX // BLOCK)]
    table = np.zeros((len(OWN), 9), dtype=np.int32)
    for row, own in zip(table, OWN, strict=True):
        blocks = [*prefix, *(free.pop() for _ in range(-(-own // BLOCK)))]
        row[: len(blocks)] = blocks
    return table, np.array([PREFIX + own for own in OWN])


def run(mode: DecodeMode) -> tuple[DecodePlan, Traffic, torch.Tensor, torch.Tensor]:
    """A plan of that batch, what its launches read and wrote, their output, and what it should be."""
    table, lengths = batch()
    planner = DecodePlanner(BLOCK, HEADS, KV_HEADS, DIM, vector_bytes=4 * DIM, mode=mode, processors=1)
    plan = planner.plan(table, lengths)
    random = torch.Generator().manual_seed(1)
    q = torch.randn(len(OWN), HEADS, DIM, generator=random)
    k_cache, v_cache = (torch.randn(20, KV_HEADS, BLOCK, DIM, generator=random) for _ in range(2))
    for row, length in zip(table, lengths, strict=True):
        if length % BLOCK:
            for cache in (k_cache, v_cache):
                cache[row[length // BLOCK], :, length % BLOCK :] = torch.nan
    parts = len(plan.query_index)
    partial_out, partial_lse = torch.full((parts, HEADS, DIM), torch.nan), torch.full((parts, HEADS), torch.nan)
    out = torch.full_like(q, torch.nan)
    index = [torch.from_numpy(array) for array in (plan.query_index, plan.block_index)]
    with sanitize() as traffic:
        for phase in plan.phases:
            items = torch.from_numpy(phase.items)
            paged_decode(q, k_cache, v_cache, items, *index, phase.most_queries, partial_out, partial_lse)
        lists = (torch.from_numpy(array) for array in (plan.part_start, plan.part_index, plan.out_rows))
        merge_states(partial_out, partial_lse, *lists, out)
    query_start = torch.arange(len(OWN) + 1, dtype=torch.int32)
    seq_lens = torch.from_numpy(lengths.astype(np.int32))
    return plan, traffic, out, paged_attention(q, k_cache, v_cache, torch.from_numpy(table), query_start, seq_lens)


@pytest.mark.parametrize(
    ("mode", "tokens"),
    [("prefix-aware", PREFIX + sum(OWN)), ("flat", len(OWN) * PREFIX + sum(OWN))],
)
def test_the_bytes_that_a_plan_reads(mode: DecodeMode, tokens: int) -> None:
    plan, traffic, out, expected = run(mode)
    assert plan.tokens_read == tokens
    assert plan.shared == (mode == "prefix-aware")
    for cache in ("k_cache", "v_cache"):
        assert traffic.loaded[cache] == tokens * KV_HEADS * DIM * 4
    assert set(traffic.stored) == {"partial_out", "partial_lse", "out"}
    assert traffic.stored["out"] == out.numel() * 4
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-5)
