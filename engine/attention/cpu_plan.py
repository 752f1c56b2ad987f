"""A step's attention on a CPU: private parts of each request, and shared parts, which one product reads once, in place.

ChunkAttention's two phases (arXiv:2402.15220), for prefill as well as for decode. All rows are the step's T queries, in rows of
the batch. Within a layer queries are kept as [Hkv, T, group, D], so that the queries of a K/V head are the rows of one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kvtool.engine.attention.window_tile import QUERY_TILE, WindowTile, by_head
from kvtool.kernels.attention_rule import PLAIN_RULE, AttentionRule, apply_sinks
from kvtool.kernels.lse_attention import attend_lse, merge_lse

Rows = slice | torch.Tensor
"""Queries of the batch: a slice where they are consecutive, int64[n] elsewhere."""

MOST_WASTED = 3 / 4
"""Most wasted rows: up to here, computing unused rows of a short beginning costs less than a mask."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """Blocks before all of `rows`, which all rows read. Their order does not matter: no token in them is hidden."""

    rows: Rows
    runs: tuple[tuple[int, int], ...]
    """Physical blocks [first, last), read in place."""
    scattered: torch.Tensor
    """int64[n]: physical blocks that are put together first."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """The new tokens of n requests, equally many each, and the earlier tokens in the first one's block: causal."""

    rows: Rows
    requests: int
    before: int
    """Tokens in the blocks that are not new."""
    length: int
    """Tokens of each request in its blocks, the new ones included."""
    blocks: torch.Tensor
    """int64[requests * blocks of each]"""
    run: tuple[int, int] | None
    """The blocks as one range, where there is one request and they are that."""


@dataclass(slots=True)
class Tails:
    """Private tokens of requests with one query each: copies of their last tokens, which grow with them.

    The first computation of a layer makes its copy [Hkv, n, room, D].
    """

    rows: Rows
    table: torch.Tensor  # int64[n, blocks in room]: the blocks of each, padded with block 0
    lengths: torch.Tensor  # int64[n]: tokens of each, the newest included
    newest: torch.Tensor  # int64[n]: the slots of the newest in the cache
    room: int
    block_size: int
    kept: bool  # whether copies are kept from step to step
    window: int | None = None  # how many of the last tokens are seen; None: all
    longest: int = 0
    places: torch.Tensor = field(init=False)  # int64[n]: the newest in a copy [Hkv, n * room, D]
    mask: torch.Tensor | None = None  # float32[n, 1, 1, room], or None where all are equally long
    copies: dict[int, tuple[torch.Tensor, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.longest = int(self.lengths.max())
        self.places = torch.arange(len(self.lengths)) * self.room + self.lengths - 1
        if self.window is not None or int(self.lengths.min()) != self.longest:
            hidden = self._hidden(self.room)
            self.mask = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None, None]

    def _hidden(self, room: int) -> torch.Tensor:
        """Return bool[n, room]: tokens after the newest one, or before the window."""
        at, ends = torch.arange(room), self.lengths[:, None]
        hidden = at >= ends
        return hidden if self.window is None else hidden | (at < ends - self.window)

    def advance(self, grown: torch.Tensor, newest: torch.Tensor) -> None:
        """Move to the next step: `grown` int64[n] tokens more, 0 or 1 each, the last of which is in slot newest[i]."""
        self.lengths = self.lengths + grown
        self.newest = newest
        self.longest = int(self.lengths.max())
        every, last = torch.arange(len(grown)), self.lengths - 1
        self.places = every * self.room + last
        self.table[every, last // self.block_size] = newest // self.block_size
        if self.mask is not None:
            self.mask[every, 0, 0, last] = 0.0
            if self.window is not None:
                gone = last - self.window
                left = gone >= 0
                self.mask[every[left], 0, 0, gone[left]] = -torch.inf

    def tokens(self, layer: int, k_cache: torch.Tensor, v_cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return K and V [n, Hkv, longest, D] of a layer."""
        caches = (k_cache,) if v_cache is k_cache else (k_cache, v_cache)  # latent vectors are both
        copies = self.copies.get(layer)
        if copies is None:
            copies = tuple(self._copy(cache) for cache in caches)
            if self.kept:
                self.copies[layer] = copies
        else:
            for copy, cache in zip(copies, caches, strict=True):
                copy.flatten(1, 2).index_copy_(
                    1, self.places, by_head(cache).flatten(1, 2).index_select(1, self.newest)
                )
        seen = [copy[:, :, : self.longest].transpose(0, 1) for copy in copies]
        return seen[0], seen[-1]

    def _copy(self, cache: torch.Tensor) -> torch.Tensor:
        heads = by_head(cache)
        count, dim = len(self.lengths), cache.shape[3]
        copy = cache.new_zeros(len(heads), count, self.room, dim)
        blocks = self.table[:, : -(-self.longest // self.block_size)].flatten()
        written = copy[:, :, : self.longest]
        written.copy_(heads.index_select(1, blocks).view(len(heads), count, -1, dim)[:, :, : self.longest])
        if self.mask is not None:  # unwritten memory may be NaN, which a mask does not hide
            written.masked_fill_(self._hidden(self.longest)[None, :, :, None], 0.0)
        return copy


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Attention of one step for all layers; the next decode step of the same requests reuses it."""

    tails: tuple[Tails, ...]
    fresh: tuple[Fresh, ...]
    contexts: tuple[ContextPart, ...]
    tiles: tuple[WindowTile, ...]
    tokens_read: int
    """Tokens whose K and V are read, per layer and K/V head."""
    flat_tokens: int
    """Tokens that are read where each request reads all of its own."""

    def attend(
        self,
        layer: int,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        rule: AttentionRule = PLAIN_RULE,
    ) -> torch.Tensor:
        """Return attention output [T, Hq, D] of queries q [T, Hq, D] over caches whose memory is [Hkv, num_blocks, P, D].

        The rule's window must be the plan's.
        """
        count, heads, dim = q.shape
        kv_heads = k_cache.shape[1]
        group = heads // kv_heads
        rows = q.view(count, kv_heads, group, dim).transpose(0, 1).contiguous()  # [Hkv, T, group, D]
        out = torch.empty(rows.shape)
        lse = torch.empty(rows.shape[:3])
        for tails in self.tails:
            k, v = tails.tokens(layer, k_cache, v_cache)
            mask = tails.mask
            mask = None if mask is None else mask[..., : tails.longest].to(q.dtype)
            part, part_lse = attend_lse(rows[:, tails.rows].transpose(0, 1), k, v, rule, mask=mask)
            out[:, tails.rows] = part.transpose(0, 1).to(out.dtype)
            lse[:, tails.rows] = part_lse.transpose(0, 1)
        for fresh in self.fresh:
            part, part_lse = _attend_fresh(fresh, rows, k_cache, v_cache, rule)
            out[:, fresh.rows] = part.to(out.dtype)
            lse[:, fresh.rows] = part_lse
        for tile in self.tiles:
            part, part_lse = tile.attend(rows, k_cache, v_cache, rule)
            out[:, tile.rows] = part.to(out.dtype)
            lse[:, tile.rows] = part_lse
        for context in self.contexts:
            _attend_context(context, rows, k_cache, v_cache, rule, out, lse)
        if rule.sinks is not None:
            out = apply_sinks(out, lse, rule.sinks.view(kv_heads, 1, group))
        return out.transpose(0, 1).to(q.dtype).reshape(count, heads, dim)


def _attend_context(
    context: ContextPart,
    rows: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    rule: AttentionRule,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """Merge a context into the results of its rows."""
    queries = rows[:, context.rows]
    shape = queries.shape
    queries = queries.flatten(1, 2)[None]  # [1, Hkv, n * group, D]
    in_place = isinstance(context.rows, slice)
    total, total_lse = out[:, context.rows], lse[:, context.rows]  # a copy where rows are single ones
    for k, v in _pieces(context, k_cache, v_cache):
        part, part_lse = attend_lse(queries, k[None], v[None], rule)
        merge_lse(total, total_lse, part.view(shape), part_lse.reshape(shape[:3]))
    if not in_place:
        out[:, context.rows], lse[:, context.rows] = total, total_lse


def _pieces(
    context: ContextPart, k_cache: torch.Tensor, v_cache: torch.Tensor
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return K and V [Hkv, tokens, D] of a context: views of its runs, then a copy of the scattered rest."""
    k, v = by_head(k_cache), by_head(v_cache)
    pieces = [(k[:, first:last].flatten(1, 2), v[:, first:last].flatten(1, 2)) for first, last in context.runs]
    if len(context.scattered):
        keys = k.index_select(1, context.scattered).flatten(1, 2)
        same = v_cache is k_cache
        pieces.append((keys, keys if same else v.index_select(1, context.scattered).flatten(1, 2)))
    return pieces


def _attend_fresh(
    fresh: Fresh, rows: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, rule: AttentionRule
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return output [Hkv, n, group, D] and log-sum-exps [Hkv, n, group] of the rows of requests with new tokens."""
    kv_heads, _, group, dim = rows.shape
    requests = fresh.requests

    def read(cache: torch.Tensor) -> torch.Tensor:
        """Return [requests * Hkv, group, length, D]."""
        heads = by_head(cache)
        if fresh.run is not None:
            first, last = fresh.run
            tokens = heads[:, first:last].flatten(1, 2)[:, : fresh.length]
        else:
            tokens = heads.index_select(1, fresh.blocks).view(kv_heads, requests, -1, dim)[:, :, : fresh.length]
            tokens = tokens.transpose(0, 1).flatten(0, 1)
        return tokens[:, None].expand(-1, group, -1, -1)

    q = rows[:, fresh.rows].view(kv_heads, requests, -1, group, dim)
    q = q.permute(1, 0, 3, 2, 4).flatten(0, 1)  # [requests * Hkv, group, new, D]
    k = read(k_cache)
    out, lse = _causal(q, k, k if v_cache is k_cache else read(v_cache), fresh.before, rule)
    out = out.view(requests, kv_heads, group, -1, dim).permute(1, 0, 3, 2, 4).flatten(1, 2)
    return out, lse.reshape(requests, kv_heads, group, -1).permute(1, 0, 3, 2).flatten(1, 2)


def _causal(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, before: int, rule: AttentionRule
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q [B, H, n, D] are the last n of the before + n tokens in k, v [B, H, before + n, D]."""
    count = q.shape[2]
    if before <= count * MOST_WASTED and rule.softcap is None:
        if before:
            q = torch.nn.functional.pad(q, (0, 0, before, 0))  # rows that are thrown away again
        out, lse = attend_lse(q, k, v, rule, causal=True)
        return out[:, :, before:], lse[:, :, before:]
    parts = []
    for start in range(0, count, QUERY_TILE):
        stop = min(start + QUERY_TILE, count)
        seen = before + stop
        hidden = torch.arange(seen) > torch.arange(before + start, seen)[:, None]
        mask = torch.zeros(hidden.shape, dtype=q.dtype).masked_fill_(hidden, -torch.inf)[None, None]
        parts.append(attend_lse(q[:, :, start:stop], k[:, :, :seen], v[:, :, :seen], rule, mask=mask))
    return torch.cat([out for out, _ in parts], dim=2), torch.cat([lse for _, lse in parts], dim=2)
