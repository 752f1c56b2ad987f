"""Paged caches full of random numbers and poison, and attention in float64: what both forms of a kernel are tested with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kvtool.kernels.kv_quantization import MAXIMA, Scale, dynamic_scale, quantized, storage_view

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2, INT8 = torch.float8_e4m3fn, torch.float8_e5m2, torch.int8

UNTOUCHED = 12_345.0
"""What outputs hold before a kernel runs."""

Kernel = Callable[..., None]


@dataclass
class Paged:
    """Sequences in a paged cache: every slot that no token is in, and block 0, is poisoned with NaN (int8: in its scales)."""

    k_cache: torch.Tensor
    v_cache: torch.Tensor
    k_scale: Scale
    v_scale: Scale
    block_table: torch.Tensor  # int32[n, W], rows padded with block 0
    keys: list[torch.Tensor]  # f64[Hkv, length, D] of each sequence: what the cache means
    values: list[torch.Tensor]

    @property
    def scales(self) -> dict[str, Scale]:
        return {"k_scale": self.k_scale, "v_scale": self.v_scale}


def paged(
    lengths: Sequence[int],
    *,
    q_dtype: torch.dtype = FP32,
    cache: torch.dtype | None = None,
    kv_heads: int = 2,
    page: int = 16,
    dim: int = 64,
    scaled: bool = False,
    sizes: Sequence[float] = (1.0,),
) -> Paged:
    """Fresh random keys and values of the given lengths; `sizes` are magnitudes of values, token by token in turn.

    `scaled`: each token and head has a scale of its own, otherwise a quantized cache has one number.
    """
    cache = cache or q_dtype
    counts = [-(-length // page) for length in lengths]
    num_blocks = sum(counts) + 1
    ids = (torch.randperm(num_blocks - 1) + 1).split(counts)
    block_table = torch.zeros(len(lengths), max(counts), dtype=torch.int32)
    for row, own in zip(block_table, ids, strict=True):
        row[: len(own)] = own.int()
    # A slice of something larger: strides are not what the shape alone would give.
    caches = [torch.empty(num_blocks, kv_heads + 1, page, dim).to(cache)[:, :kv_heads] for _ in range(2)]
    scales: list[Scale] = [1.0, 1.0]
    if cache in MAXIMA:
        most = 3.0 * max(sizes)
        scales = [3.0 / MAXIMA[cache], most / MAXIMA[cache]]
    if scaled:
        scales = [torch.full((num_blocks, kv_heads, page), math.nan) for _ in range(2)]
    for x in caches:
        storage_view(x)[:] = 127 if cache == INT8 else storage_view(torch.tensor([math.nan]).to(cache))[0]
    meant: list[list[torch.Tensor]] = [[], []]
    for length, blocks in zip(lengths, ids, strict=True):
        place = blocks.repeat_interleave(page)[:length], torch.arange(length) % page
        size = torch.tensor(sizes)[torch.arange(length) % len(sizes)]
        for which, x in enumerate(torch.randn(2, length, kv_heads, dim)):
            x = x * size[:, None, None] if which else x
            scale: Scale = scales[which]
            if isinstance(scale, torch.Tensor):
                own = dynamic_scale(x, cache)
                scale[place[0], :, place[1]] = own
                scale = own[..., None]
            stored = quantized(x, scale, cache)
            storage_view(caches[which])[place[0], :, place[1]] = storage_view(stored)
            if cache not in MAXIMA:
                stored, scale = stored.to(q_dtype), 1.0
            meant[which].append((stored.double() * scale).transpose(0, 1))
    return Paged(caches[0], caches[1], scales[0], scales[1], block_table, *meant)


def queries(count: int, heads: int, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """[count, heads, dim] in the middle of wider rows, as a fused projection leaves them."""
    return torch.randn(count, heads + 3, dim).to(dtype)[:, 1 : heads + 1]


def attention64(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, visible: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """f64[n, Hq, D] and the base-2 logarithm of the sum f64[n, Hq], query by query and head by head."""
    count, heads, dim = q.shape
    group = heads // len(keys)
    out, lse = torch.zeros(count, heads, dim, dtype=torch.float64), torch.full((count, heads), -math.inf).double()
    for query in range(count):
        seen = visible[query]
        for head in range(heads):
            if seen.any():
                scores = keys[head // group][seen] @ q[query, head].double() * (scale or dim**-0.5)
                out[query, head] = scores.softmax(0) @ values[head // group][seen]
                lse[query, head] = scores.logsumexp(0) / math.log(2)
    return out, lse


def assert_close(got: torch.Tensor, want: torch.Tensor, q: torch.dtype, cache: torch.dtype, size: float = 1.0) -> None:
    """Within what the products' type allows, for values of magnitude `size`."""
    if q != FP32 and cache in MAXIMA:
        bound = 3e-3 if q == FP16 or got.dtype == FP32 else 2e-2
    else:
        bound = {FP32: 1e-5, FP16: 3e-3, BF16: 2e-2}[q]
    torch.testing.assert_close(got.double(), want, rtol=bound, atol=bound * size)


# ------------------------------------------------------------------------------------------------------------------- prefill


def check_prefill(
    kernel: Kernel,
    lengths: Sequence[int],
    counts: Sequence[int],
    *,
    tile_queries: int = 8,
    group: int = 2,
    q_dtype: torch.dtype = FP32,
    parts: Sequence[int] = (),
    scale: float | None = None,
    size: float = 1.0,
    **cache: object,
) -> None:
    """Sequence i has lengths[i] tokens, its last counts[i] of them queries; `parts`: where the tokens of each tile are cut."""
    kv = paged(lengths, q_dtype=q_dtype, **cache)  # type: ignore[arg-type]
    heads, dim = kv.k_cache.shape[1] * group, kv.k_cache.shape[3]
    query_start = torch.tensor([0, *counts]).cumsum(0).int()
    q = queries(int(query_start[-1]), heads, dim, q_dtype)
    out = torch.full_like(q, UNTOUCHED)
    rows = [(-1, 0, 0, 16, -1)]  # padding
    wanted, used = [], 0
    for request, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        for first in range(0, count, tile_queries):
            past = min(first + tile_queries, count)
            for kv_from, kv_to in zip([0, *parts], [*parts, length], strict=True):
                kv_from, kv_to = min(kv_from, length // 64 * 64), min(kv_to, length)
                rows.append((request, first, kv_from, kv_to, used if parts else -1))
                wanted.append((request, first, past, kv_from, kv_to, used))
                used += past - first if parts else 0
    partial_out, partial_lse = torch.full((used + 1, heads, dim), UNTOUCHED), torch.full((used + 1, heads), UNTOUCHED)
    tiles = torch.tensor(rows, dtype=torch.int32)
    index = (kv.block_table, query_start, torch.tensor(lengths, dtype=torch.int32), tiles, tile_queries)
    kernel(q, kv.k_cache, kv.v_cache, *index, out, partial_out, partial_lse, scale, **kv.scales)
    for request, first, past, kv_from, kv_to, part in wanted:
        begin = int(query_start[request])
        own = lengths[request] - counts[request] + torch.arange(first, past)
        token = torch.arange(lengths[request])
        visible = (token >= kv_from) & (token < kv_to) & (token <= own[:, None])
        at = slice(begin + first, begin + past)
        want, lse = attention64(q[at], kv.keys[request], kv.values[request], visible, scale)
        kind = (q_dtype, kv.k_cache.dtype)
        if parts:
            assert_close(partial_out[part : part + past - first], want, *kind, size)
            assert_close(partial_lse[part : part + past - first], lse, *kind)
            assert bool((out[at] == UNTOUCHED).all())
        else:
            assert_close(out[at], want, *kind, size)
    assert bool((partial_out[used:] == UNTOUCHED).all())
    assert bool((partial_lse[used:] == UNTOUCHED).all())


# -------------------------------------------------------------------------------------------------------------------- decode


def check_decode(
    kernel: Kernel,
    lengths: Sequence[int],
    items: Sequence[tuple[Sequence[int], int, int, int]],
    *,
    group: int = 2,
    q_dtype: torch.dtype = FP32,
    scale: float | None = None,
    size: float = 1.0,
    **cache: object,
) -> None:
    """Items (queries, sequence, first block, kv_len): the queries read kv_len tokens from a block of the sequence on."""
    kv = paged(lengths, q_dtype=q_dtype, **cache)  # type: ignore[arg-type]
    page = kv.k_cache.shape[2]
    heads, dim = kv.k_cache.shape[1] * group, kv.k_cache.shape[3]
    q = queries(1 + max(query for own, *_ in items for query in own), heads, dim, q_dtype)
    rows, query_index, block_index = [], [0], [0]  # one unused entry before what the items use
    for own, sequence, block, kv_len in items:
        rows.append((len(query_index), len(own), len(block_index), kv_len))
        query_index += own
        block_index += kv.block_table[sequence, block : block + -(-kv_len // page)].tolist()
    rows.insert(1, (0, 0, 0, 0))  # padding
    partial_out = torch.full((len(query_index), heads, dim), UNTOUCHED)
    partial_lse = torch.full((len(query_index), heads), UNTOUCHED)
    index = [torch.tensor(x, dtype=torch.int32) for x in (rows, query_index, block_index)]
    most = max(len(own) for own, *_ in items)
    kernel(q, kv.k_cache, kv.v_cache, *index, most, partial_out, partial_lse, scale, **kv.scales)
    del rows[1]
    written = torch.zeros(len(query_index), dtype=torch.bool)
    for (own, sequence, block, kv_len), (q_off, q_len, _, _) in zip(items, rows, strict=True):
        if not kv_len:
            continue
        at, tokens = slice(q_off, q_off + q_len), slice(block * page, block * page + kv_len)
        written[at] = True
        k, v = kv.keys[sequence][:, tokens], kv.values[sequence][:, tokens]
        want, lse = attention64(q[list(own)], k, v, torch.ones(q_len, kv_len, dtype=torch.bool), scale)
        assert_close(partial_out[at], want, q_dtype, kv.k_cache.dtype, size)
        assert_close(partial_lse[at], lse, q_dtype, kv.k_cache.dtype)
    assert bool((partial_out[~written] == UNTOUCHED).all())
    assert bool((partial_lse[~written] == UNTOUCHED).all())
