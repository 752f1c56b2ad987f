"""Causal attention of a batch of ragged queries over paged K/V (torch)."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from kvtool.kernels.attention_rule import PLAIN_RULE, AttentionRule, apply_sinks
from kvtool.kernels.checks import check_caches, check_indices, check_queries, check_range, check_shape, check_type
from kvtool.kernels.kv_quantization import Scale, dequantized, storage_view
from kvtool.kernels.partial_attention import attend_part, read_tokens

_QUERY_TILE = 256  # rows of queries per call with a mask: bounds the mask and skips most hidden tokens
_MOST_WASTED = 3 / 4  # for a short prefix, unused rows cost less than a mask, which rules the fast path out
_LN_2 = math.log(2.0)


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float | None = None,
    k_scale: Scale = 1.0,
    v_scale: Scale = 1.0,
    rule: AttentionRule = PLAIN_RULE,
) -> torch.Tensor:
    """Return attention output [T, Hq, D] of queries q [T, Hq, D]; `scale` is the rule's, or 1/sqrt(D), unless given.

    Sequence i has queries [query_start[i], query_start[i + 1]), which are the last of its seq_lens[i] tokens; each sees the tokens
    up to its own. Their keys and values are in blocks block_table[i] of k_cache, v_cache [num_blocks, Hkv, P, D]. Query head h
    reads K/V head h // (Hq / Hkv). Slots after a sequence's end never affect the result. query_start: int32[n + 1]; seq_lens:
    int32[n]; block_table: int32[n, max_blocks]. Caches of another type than q are read as q's; quantized ones with the scales of
    `store_kv`. Blocks before the rule's window for all queries of a request are not read.
    """
    check_caches(k_cache, v_cache, k_scale, v_scale)
    check_queries(q, k_cache)
    check_indices("seq_lens", seq_lens, None)
    check_indices("query_start", query_start, len(seq_lens) + 1)
    check_type("block_table", block_table, torch.int32)
    check_shape("block_table", block_table, len(seq_lens), None)
    heads, dim = q.shape[1:]
    num_blocks, kv_heads, page = k_cache.shape[:3]
    check_range("query_start", query_start, 0, len(q) + 1)
    check_range("seq_lens", seq_lens, 0, block_table.shape[1] * page + 1)
    check_range("block_table", block_table, 0, num_blocks)
    counts = query_start.diff()
    if bool(((counts < 0) | (counts > seq_lens)).any()):
        raise ValueError(f"requests have {counts.tolist()} queries, and no more than {seq_lens.tolist()} tokens")
    scale = rule.scale if scale is None else scale
    if rule.softcap is not None or rule.window is not None or rule.sinks is not None:
        return _by_rule(
            q, (k_cache, v_cache), (k_scale, v_scale), block_table, query_start.tolist(), seq_lens.tolist(), scale, rule
        )
    group = heads // kv_heads
    keys, values = _Rows(k_cache, k_scale, q.dtype), _Rows(v_cache, v_scale, q.dtype)
    head_row = torch.arange(kv_heads, device=q.device)[:, None]
    out = q.new_empty(q.shape)
    bounds = query_start.tolist()
    for index, length in enumerate(seq_lens.tolist()):
        first, last = bounds[index], bounds[index + 1]
        if first == last:
            continue
        blocks = block_table[index, : -(-length // page)].long()
        rows = (blocks * kv_heads + head_row).flatten()  # [Hkv * blocks]
        k, v = keys.read(rows, length), values.read(rows, length)  # [Hkv, length, D]
        queries = q[first:last].reshape(-1, kv_heads, group, dim)  # [n, Hkv, group, D]
        if last - first == 1:  # the group's heads are the rows of one matrix product
            attended = scaled_dot_product_attention(queries, k[None], v[None], scale=scale)
        else:
            attended = _causal(queries.permute(1, 2, 0, 3), k, v, scale).permute(2, 0, 1, 3)
        out[first:last] = attended.flatten(1, 2)
    return out


class _Rows:
    """A cache as rows, each one head's block, so that a gather leaves each head's tokens contiguous."""

    def __init__(self, cache: torch.Tensor, scale: Scale, dtype: torch.dtype) -> None:
        self._kv_heads, _, self._dim = cache.shape[1:]
        self._rows = storage_view(cache).flatten(0, 1).flatten(1)  # [num_blocks * Hkv, P * D]
        self._scale = scale.flatten(0, 1) if isinstance(scale, torch.Tensor) else scale  # [num_blocks * Hkv, P]
        self._stored, self._dtype = cache.dtype, dtype

    def read(self, rows: torch.Tensor, length: int) -> torch.Tensor:
        """Return [Hkv, length, D] of the rows [Hkv * blocks]."""
        shape = (self._kv_heads, -1, self._dim)
        stored = self._rows.index_select(0, rows).view(self._stored).view(shape)[:, :length]
        scale = self._scale
        if isinstance(scale, torch.Tensor):
            scale = scale.index_select(0, rows).view(self._kv_heads, -1, 1)[:, :length]
        return dequantized(stored, scale, self._dtype)


def _causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Return q [Hkv, group, n, D] are the last n of the tokens in k, v [Hkv, length, D]; return the shape of q."""
    group, count = q.shape[1:3]
    length = k.shape[1]
    k, v = (x[:, None].expand(-1, group, -1, -1) for x in (k, v))
    if count == length:
        return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    before = length - count
    if before <= count * _MOST_WASTED:
        padded = pad(q, (0, 0, before, 0))  # rows for the tokens before, computed and thrown away
        return scaled_dot_product_attention(padded, k, v, is_causal=True, scale=scale)[:, :, before:]
    position = torch.arange(length, device=q.device)
    tiles = []
    for start in range(0, count, _QUERY_TILE):
        stop = min(start + _QUERY_TILE, count)
        seen = before + stop
        mask = position[:seen] <= position[before + start : seen, None]  # [tile, seen]
        tiles.append(
            scaled_dot_product_attention(
                q[:, :, start:stop], k[:, :, :seen], v[:, :, :seen], attn_mask=mask, scale=scale
            )
        )
    return torch.cat(tiles, dim=2)


def _by_rule(
    q: torch.Tensor,
    caches: tuple[torch.Tensor, torch.Tensor],
    scales: tuple[Scale, Scale],
    block_table: torch.Tensor,
    bounds: list[int],
    lengths: list[int],
    scale: float | None,
    rule: AttentionRule,
) -> torch.Tensor:
    """Compute tiles of queries over only the tokens that a tile sees, in fp32."""
    out = q.new_empty(q.shape)
    page = caches[0].shape[2]
    for index, length in enumerate(lengths):
        before = length - (bounds[index + 1] - bounds[index])
        for first in range(before, length, _QUERY_TILE):
            last = min(first + _QUERY_TILE, length)
            low = 0 if rule.window is None else max(first + 1 - rule.window, 0) // page
            at, position = torch.arange(low * page, last, device=q.device), torch.arange(first, last, device=q.device)
            visible = at <= position[:, None]
            if rule.window is not None:
                visible &= at > position[:, None] - rule.window
            rows = slice(bounds[index] + first - before, bounds[index] + last - before)
            k, v = (
                read_tokens(cache, kept, block_table[index, low:], last - low * page, q.dtype)
                for cache, kept in zip(caches, scales, strict=True)
            )
            part, lse = attend_part(q[rows], k, v, scale, visible, rule.softcap)
            if rule.sinks is not None:
                part = apply_sinks(part, lse * _LN_2, rule.sinks)
            out[rows] = part.to(q.dtype)
    return out
