"""Paged attention against float64: each launcher by itself, and a whole step as the engine plans it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch

from benchmarks.device import references
from benchmarks.device.checks import Check, bound, checked, covering
from benchmarks.device.sequences import MODES, Sequences, attention_planner
from kvtool.engine.attention.attention_plan import attend
from kvtool.engine.attention.decode_plan import Int32
from kvtool.engine.attention.prefill_plan import plan_prefill
from kvtool.engine.config import DecodeMode
from kvtool.kernels.kv_quantization import MAXIMA
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import SHORT, AttentionShape, BenchLayer

QUANTIZED = (torch.float8_e4m3fn, torch.float8_e5m2, torch.int8)


MERGE_BOUNDS = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 4e-3}
"""Only the result is rounded."""

_BUSY = 132  # processors to plan for, so that a small problem is split as it would be on a large device


@dataclass(frozen=True, slots=True)
class Extent:
    """How much to try."""

    head_dims: tuple[int, ...] = (64, 80, 128)
    groups: tuple[int, ...] = (1, 4, 8)
    block_sizes: tuple[int, ...] = (16, 64)
    caches: tuple[torch.dtype, ...] = QUANTIZED
    """Besides the type of the queries."""
    most_tokens: int = 1300
    """Of a sequence; from 1,024 on, prefill may be cut into parts."""
    most_rows: int = 128
    """Queries times the heads of a group that one item of decode has at most."""
    kv_heads: int = 2
    most_shapes: int = 1000
    realistic: bool = True
    """Llama-3.1-8B's geometry with thousands of tokens as well."""


SMALL = Extent((32,), (1, 4), (16,), (torch.int8,), most_tokens=60, most_rows=32, most_shapes=2, realistic=False)
"""A few seconds in Triton's interpreter."""


def shapes(dtype: torch.dtype, extent: Extent) -> list[AttentionShape]:
    """What to try, in an order in which the first few already have every pair of figures."""
    found = []
    for case in covering((dtype, *extent.caches), extent.head_dims, extent.groups, extent.block_sizes):
        cache, dim, group, block_size = cast("tuple[torch.dtype, int, int, int]", case)
        found.append(AttentionShape(group * extent.kv_heads, extent.kv_heads, dim, block_size, dtype, cache))
    return found[: extent.most_shapes]


def named(shape: AttentionShape) -> str:
    return f"{SHORT[shape.kept]} cache, D {shape.head_dim}, {shape.heads}/{shape.kv_heads} heads, P {shape.block_size}"


def poison_tails(layer: BenchLayer, sequences: Sequences) -> None:
    """NaN, in every slot that belongs to no token, where its type has one: if it is read, the result shows it."""
    block_size = layer.k_cache.shape[2]
    used = torch.zeros(sequences.num_blocks * block_size, dtype=torch.bool)
    for row, length in zip(torch.from_numpy(sequences.block_table).long(), sequences.lengths.tolist(), strict=True):
        slots = (row[:, None] * block_size + torch.arange(block_size)).flatten()[:length]
        used[slots] = True
    unused = (~used).view(-1, block_size).to(layer.k_cache.device)
    for cache, scale in ((layer.k_cache, layer.k_scale), (layer.v_cache, layer.v_scale)):
        if cache.dtype in MAXIMA and cache.dtype.is_floating_point:  # 0x7F is NaN in both
            cache.view(torch.uint8).transpose(1, 2)[unused] = 0x7F
        elif cache.dtype.is_floating_point:
            cache.transpose(1, 2)[unused] = math.nan
        if isinstance(scale, torch.Tensor):
            scale.transpose(1, 2)[unused] = math.nan


def tokens_of(layer: BenchLayer, sequences: Sequences, request: int) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of a sequence, float64[length, Hkv, D]."""
    length = int(sequences.lengths[request])
    block_size = layer.k_cache.shape[2]
    blocks = torch.from_numpy(sequences.block_table[request, : -(-length // block_size)]).long().to(layer.q.device)
    return (
        references.cached_tokens(layer.k_cache, layer.k_scale, blocks, length),
        references.cached_tokens(layer.v_cache, layer.v_scale, blocks, length),
    )


def _partials(rows: int, shape: AttentionShape, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Poisoned."""
    return (
        torch.full((rows, shape.heads, shape.head_dim), math.nan, device=device),
        torch.full((rows, shape.heads), math.nan, device=device),
    )


def check_decode_items(
    kernels: Kernels, shape: AttentionShape, most_queries: int, most_tokens: int, device: torch.device, seed: int
) -> Iterator[Check]:
    """Items of any number of queries and tokens, one of them empty: partial results and log-sum-exps, and nothing else written."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, most_tokens, 5)
    sequences = Sequences.sharing([1] * 5, lengths.tolist(), 0, shape.block_size, seed)
    queries = max(12, most_queries)
    layer = BenchLayer.random(shape, sequences.num_blocks, queries, device)
    poison_tails(layer, sequences)
    q_len = np.concatenate([rng.integers(1, most_queries + 1, 4), [most_queries]])
    kv_len = lengths.copy()
    kv_len[2] = 0
    blocks = -(-lengths // shape.block_size)
    starts, block_starts = (np.cumsum(counts) - counts for counts in (q_len, blocks))
    items = np.stack([starts, q_len, block_starts, kv_len], axis=1).astype(np.int32)
    query_index = np.concatenate([rng.permutation(queries)[:count] for count in q_len]).astype(np.int32)
    block_index = np.concatenate([row[:count] for row, count in zip(sequences.block_table, blocks, strict=True)])
    partial_out, partial_lse = _partials(len(query_index), shape, device)
    kernels.paged_decode(
        layer.q,
        layer.k_cache,
        layer.v_cache,
        _on(items, device),
        _on(query_index, device),
        _on(block_index, device),
        most_queries,
        partial_out,
        partial_lse,
        k_scale=layer.k_scale,
        v_scale=layer.v_scale,
    )
    written = torch.zeros(len(query_index), dtype=torch.bool, device=device)
    expected_out, expected_lse = partial_out.double(), partial_lse.double()
    for index, (start, count, _, length) in enumerate(items.tolist()):
        if length:
            rows = slice(start, start + count)
            own = layer.q[_on(query_index, device)[rows].long()]
            expected_out[rows], expected_lse[rows] = references.attention(own, *tokens_of(layer, sequences, index))
            written[rows] = True
    note = "" if bool(partial_out[~written].isnan().all()) else "an item without tokens wrote something"
    name, limit = f"{named(shape)}, {most_queries} queries", bound(shape.dtype, shape.kept)
    dtype = SHORT[shape.dtype]
    yield Check(
        "paged_decode", dtype, name, references.relative_error(partial_out[written], expected_out[written]), limit, note
    )
    error = references.relative_error(partial_lse[written], expected_lse[written])
    yield Check("paged_decode LSE", dtype, name, error, limit)


def check_prefill_tiles(
    kernels: Kernels, shape: AttentionShape, most_tokens: int, busy: int, device: torch.device, seed: int
) -> Iterator[Check]:
    """Ragged requests, cached prefixes among them; `busy` processors decide whether their tiles are cut into parts."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(most_tokens // 3, most_tokens, 4)
    lengths[0] = most_tokens
    counts = np.maximum(1, (lengths * [0.04, 1.0, 0.6, 0.3]).astype(np.int64))
    sequences = Sequences.sharing(counts.tolist(), lengths.tolist(), 0, shape.block_size, seed)
    layer = BenchLayer.random(shape, sequences.num_blocks, sequences.num_queries, device)
    poison_tails(layer, sequences)
    batch = sequences.batch()
    query_start = batch.query_start.numpy()
    requests = np.array([0, 1, 3], dtype=np.int32)  # the third one is none of them, and must not be written
    tile_queries = kernels.prefill_queries(shape.dtype, shape.heads // shape.kv_heads, shape.head_dim, shape.kept)
    plan = plan_prefill(
        requests,
        query_start,
        sequences.lengths,
        tile_queries,
        num_kv_heads=shape.kv_heads,
        block_size=shape.block_size,
        processors=busy,
    )
    padding = np.full((1, 5), -1, dtype=np.int32)
    out = torch.full_like(layer.q, math.nan)
    partials = _partials(plan.num_parts, shape, device)
    there = batch.to(device)
    kernels.paged_prefill(
        layer.q,
        layer.k_cache,
        layer.v_cache,
        there.block_table,
        there.query_start,
        there.seq_lens,
        _on(np.concatenate([plan.tiles, padding]), device),
        tile_queries,
        out,
        *partials,
        k_scale=layer.k_scale,
        v_scale=layer.v_scale,
    )
    if len(plan.out_rows):
        kernels.merge_states(
            *partials, _on(plan.part_start, device), _on(plan.part_index, device), _on(plan.out_rows, device), out
        )
    kind = "in parts" if plan.num_parts else "whole"
    yield from _compared(
        "paged_prefill", out, layer, sequences, shape, f"{named(shape)}, {kind}", set(requests.tolist())
    )


def check_step(
    kernels: Kernels,
    shape: AttentionShape,
    sequences: Sequences,
    mode: DecodeMode,
    device: torch.device,
    name: str,
    busy: int | None = None,
) -> Iterator[Check]:
    """Everything that the engine launches for a layer's attention, by a plan for `busy` processors if not this device's."""
    layer = BenchLayer.random(shape, sequences.num_blocks, sequences.num_queries, device)
    poison_tails(layer, sequences)
    host = sequences.batch()
    plan = attention_planner(kernels, shape, mode, device, busy).plan(host)
    partials = _partials(plan.num_parts, shape, device)
    out = attend(
        kernels,
        plan,
        partials,
        layer.q,
        layer.k_cache,
        layer.v_cache,
        host.to(device),
        layer.k_scale,
        layer.v_scale,
    )
    case = f"{name}, {mode}, {named(shape)}"
    yield from _compared("whole step", out, layer, sequences, shape, case, set(range(len(sequences.counts))))


def _compared(
    kernel: str,
    out: torch.Tensor,
    layer: BenchLayer,
    sequences: Sequences,
    shape: AttentionShape,
    case: str,
    requests: set[int],
) -> Iterator[Check]:
    expected, found, note = [], [], ""
    ends = np.cumsum(sequences.counts).tolist()
    for request, (end, count) in enumerate(zip(ends, sequences.counts.tolist(), strict=True)):
        own = out[end - count : end]
        if request in requests:
            queries = layer.q[end - count : end]
            expected.append(references.causal_attention(queries, *tokens_of(layer, sequences, request)))
            found.append(own)
        elif not bool(own.isnan().all()):
            note = f"request {request}, which has no tile, was written to"
    error = references.relative_error(torch.cat(found), torch.cat(expected))
    yield Check(kernel, SHORT[shape.dtype], case, error, bound(shape.dtype, shape.kept), note)


def check_merge(kernels: Kernels, dtype: torch.dtype, dim: int, device: torch.device, seed: int) -> Iterator[Check]:
    """Lists of none, one and many parts, some of them empty (-inf), one with nothing but empty parts."""
    rng = np.random.default_rng(seed)
    rows, heads = 40, 6
    partial_out = torch.randn(rows, heads, dim, device=device)
    partial_lse = torch.randn(rows, heads, device=device) * 6 + 10
    partial_lse[::7] = -math.inf
    partial_out[::7] = 0.0
    counts = np.array([0, 1, 2, 3, 9, 17, 2])
    lists = [rng.permutation(rows)[:count] for count in counts]
    lists[-1] = np.array([0, 7])
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    out_rows = rng.permutation(12)[: len(counts)].astype(np.int32)
    out = torch.full((12, heads, dim), math.nan, device=device, dtype=dtype)
    index = np.concatenate(lists).astype(np.int32)
    kernels.merge_states(partial_out, partial_lse, _on(start, device), _on(index, device), _on(out_rows, device), out)
    expected = torch.stack([references.merged(partial_out[parts], partial_lse[parts]) for parts in lists[1:]])
    written = out_rows[1:].tolist()
    others = [row for row in range(12) if row not in written]
    note = "" if bool(out[others].isnan().all()) else "a row without parts was written"
    error = references.relative_error(out[written], expected)
    yield Check("merge_states", SHORT[dtype], f"D {dim}", error, MERGE_BOUNDS[dtype], note)


def _on(array: Int32, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def mixed(shape: AttentionShape, most_tokens: int, seed: int = 0) -> Sequences:
    """Decode and prefill in one batch, behind a common beginning."""
    rng = np.random.default_rng(seed)
    shared = max(1, most_tokens // 2 // shape.block_size) * shape.block_size
    lengths = shared + rng.integers(1, most_tokens // 2 + 1, 6)
    counts = [1, 1, 1, int(lengths[3] - shared), 1, 1]
    return Sequences.sharing(counts, lengths.tolist(), shared, shape.block_size, seed)


def prefill_checks(kernels: Kernels, dtype: torch.dtype, extent: Extent, device: torch.device) -> Iterator[Check]:
    """Of prefill with queries of one type; the most telling first."""
    if extent.realistic:
        shape = AttentionShape(dtype=dtype)
        for name, new, cached in (("4,096 new", 4096, 0), ("512 on 8,000", 512, 8000), ("30 on 6,000", 30, 6000)):
            sequences = Sequences.sharing([new], [new + cached], 0, shape.block_size)
            run = partial(check_step, kernels, shape, sequences, "auto", device, name)
            yield from checked("whole step", dtype, name, device, run)
    for seed, shape in enumerate(shapes(dtype, extent)):
        for busy in (1, 32 * _BUSY) if extent.realistic else (1,):
            run = partial(check_prefill_tiles, kernels, shape, extent.most_tokens, busy, device, seed)
            yield from checked("paged_prefill", dtype, named(shape), device, run)


def decode_checks(kernels: Kernels, dtype: torch.dtype, extent: Extent, device: torch.device) -> Iterator[Check]:
    """Of decode and of the merge with queries of one type; the most telling first."""
    for seed, dim in enumerate(extent.head_dims):
        run = partial(check_merge, kernels, dtype, dim, device, seed)
        yield from checked("merge_states", dtype, f"D {dim}", device, run)
    if extent.realistic:
        shape = AttentionShape(dtype=dtype)
        for name, batch, context, shared in (
            ("32 x 4,096, 3,888 shared", 32, 4096, 3888),
            ("16 x 2,048", 16, 2048, 0),
            ("1 x 20,000", 1, 20_000, 0),
        ):
            sequences = Sequences.sharing([1] * batch, [context] * batch, shared, shape.block_size)
            for mode in MODES:
                run = partial(check_step, kernels, shape, sequences, mode, device, name)
                yield from checked("whole step", dtype, f"{name}, {mode}", device, run)
    for seed, shape in enumerate(shapes(dtype, extent)):
        group = shape.heads // shape.kv_heads
        for most_queries in sorted({1, max(1, 16 // group), max(1, extent.most_rows // group)}):
            run = partial(check_decode_items, kernels, shape, most_queries, extent.most_tokens, device, seed)
            yield from checked("paged_decode", dtype, f"{named(shape)}, {most_queries} queries", device, run)
        mode = MODES[seed % 2]
        sequences = mixed(shape, extent.most_tokens, seed)
        run = partial(check_step, kernels, shape, sequences, mode, device, "mixed batch", _BUSY)
        yield from checked("whole step", dtype, named(shape), device, run)
