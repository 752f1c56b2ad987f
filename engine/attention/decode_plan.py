"""The reads of a decode step: work items for `paged_decode`, and the way `merge_states` joins their partial results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class DecodeItems:
    """One launch of `paged_decode`."""

    items: Int32  # [n, 4]: (q_off, q_len, blk_off, kv_len), the most expensive first
    most_queries: int  # the largest q_len: 1 in the private phase


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """The attention of B sequences with one query each, the same for every layer.

    Item (q_off, q_len, blk_off, kv_len) attends with q rows `query_index[q_off : q_off + q_len]` to the kv_len tokens in blocks
    `block_index[blk_off : blk_off + ceil(kv_len / P)]`, and its partial results are rows q_off … q_off + q_len - 1. Sequence i
    is at row `out_rows[i]`; its parts are the partial rows `part_index[part_start[i] : part_start[i + 1]]`.
    """

    phases: tuple[DecodeItems, ...]  # shared segments (q_len > 1), then private ones (q_len = 1); none is empty
    query_index: Int32  # [m]: the q row of partial row r
    block_index: Int32  # [b]: block ids; between segments there are gaps, which no item reads
    part_start: Int32  # [B + 1]
    part_index: Int32  # [m]
    out_rows: Int32  # [B]
    tokens_read: int  # sum of kv_len: tokens whose K and V are read, per layer and K/V head
    flat_tokens: int  # sum of the sequences' lengths: the reads of a flat plan
    shared: bool  # whether any item has more than one query
