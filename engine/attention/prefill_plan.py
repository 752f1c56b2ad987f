"""Cut prefill into tiles of queries, and a few long ones into parts, so that a whole accelerator has work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]

_LEAST_PART = 512
"""Tokens: below, a part's own result, written and read once more, costs more than its share of the machine saves."""

_PART_STEP = 128
"""Parts begin at multiples of this, so that they consist of whole tiles of keys."""


@dataclass(frozen=True, slots=True)
class PrefillPlan:
    """Tiles for `paged_prefill`, and which of their partial results `merge_states` puts together to which row of the output."""

    tiles: Int32  # [m, 5]: request, first query, kv_from, kv_to, part; the longest first
    part_start: Int32  # [k + 1]
    part_index: Int32  # [part_start[k]]
    out_rows: Int32  # [k]
    num_parts: int  # rows of partial results, from `first_part` on


def plan_prefill(
    requests: Int32,
    query_start: Int32,
    seq_lens: Int32,
    tile_queries: int,
    *,
    num_kv_heads: int,
    block_size: int,
    processors: int,
    first_part: int = 0,
) -> PrefillPlan:
    """Return tiles of `tile_queries` queries for the given requests of a batch.

    Where tiles times K/V heads are fewer than the `processors`, as for a short question on a long cached document, each tile's
    tokens are cut into parts of at least `_LEAST_PART`, and the partial results are merged afterwards.
    """
    counts = (query_start[1:] - query_start[:-1])[requests]
    per_request = -(-counts // tile_queries)
    request = np.repeat(requests, per_request)
    index = np.arange(len(request)) - np.repeat(np.cumsum(per_request) - per_request, per_request)
    first = index * tile_queries
    count = np.minimum(tile_queries, np.repeat(counts, per_request) - first)
    length = (
        seq_lens[request] - np.repeat(counts, per_request) + first + count
    )  # tokens that the tile's last query sees
    step = np.lcm(_PART_STEP, block_size)
    wanted = max(processors // max(len(request) * num_kv_heads, 1), 1)
    parts = np.minimum(wanted, np.maximum(length // _LEAST_PART, 1))
    size = -(-length // (parts * step)) * step
    parts = -(-length // size)
    tile = np.repeat(np.arange(len(request)), parts)
    number = np.arange(len(tile)) - np.repeat(np.cumsum(parts) - parts, parts)
    kv_from = number * size[tile]
    kv_to = np.minimum(kv_from + size[tile], length[tile])
    split = parts[tile] > 1
    rows = np.where(split, count[tile], 0)  # partial results of each part of a tile
    part = np.where(split, first_part + np.cumsum(rows) - rows, -1)
    tiles = np.stack([request[tile], first[tile], kv_from, kv_to, part], axis=1).astype(np.int32)
    merged = [
        (query_start[request[which]] + first[which] + query, part[tile == which] + query)
        for which in np.flatnonzero(parts > 1)
        for query in range(count[which])
    ]
    lists = [indices for _, indices in merged]
    return PrefillPlan(
        tiles=tiles[np.argsort(-(tiles[:, 3] - tiles[:, 2]), kind="stable")],
        part_start=np.concatenate([[0], np.cumsum([len(indices) for indices in lists])]).astype(np.int32),
        part_index=np.concatenate([np.empty(0), *lists]).astype(np.int32),
        out_rows=np.array([row for row, _ in merged], dtype=np.int32),
        num_parts=int(rows.sum()),
    )
