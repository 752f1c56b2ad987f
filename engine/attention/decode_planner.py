"""Plan a decode step: the ranges of paged K/V that are read once for several sequences, and the program of each read.

There are two phases as in ChunkAttention (arXiv:2402.15220), over a tree instead of one prefix: shared ranges, then each
sequence's private range. The greedy rule of FastTree (MLSys 2025) decides when a branch reads its parent's blocks separately.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from kvtool.engine.attention.block_tree import FoldRule, Ints, Segment, common_blocks, shared_segments, sort_by_blocks
from kvtool.engine.attention.decode_plan import DecodeItems, DecodePlan, Int32
from kvtool.engine.config import DecodeMode
from kvtool.engine.engine_error import EngineError

ROWS = 128
"""Query rows (queries x heads of a group) of the kernels' largest tile."""
TILE_TOKENS = 64
"""Long segments are cut at multiples of this, so that parts consist of whole tiles of keys."""
LEAST_SHARED_TOKENS = 64
"""Least tokens of a shared segment: one tile of keys; less is not worth an item."""
ROOM_TOKENS = 128
"""Growth of a sequence before it is planned anew; planning every 128 steps costs next to nothing."""
AUTO_MARGIN = 0.05
"""Least predicted gain for which `auto` shares; the model is not exact."""

# The model counts time in bytes that one processor reads meanwhile. Assumed, not fitted: a program costs 0.5 us and a launch 2 us
# beside its reads, a processor of an H200 reads 33 GB/s (4.3 TB/s over 132), and dots run at 400 TFLOP/s (the goal for prefill).
PROGRAM_BYTES = 16_384
LAUNCH_BYTES = 65_536
FLOPS_PER_BYTE = 93.0
PROGRAMS_PER_PROCESSOR = np.array([1, 2, 4, 8, 16])


@dataclass(frozen=True, slots=True)
class _Work:
    """Segments to be read, each by the queries of one tile."""

    tokens: Ints
    queries: Ints
    first: Ints  # where its queries begin in the list of members
    place: Ints  # where its blocks begin in the block index

    def __len__(self) -> int:
        return len(self.tokens)


_NO_WORK = _Work(*np.zeros((4, 0), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class _Division:
    """Shared and private reads of the sequences; all fields but the order use positions in `order`."""

    order: Ints  # a permutation of the sequences
    segments: list[Segment]
    tiles: _Work  # of the segments
    members: list[int]  # of all tiles
    alone_from: Ints  # the block from which on each reads alone …
    rest: Ints  # … and how many tokens that is

    @property
    def ends_alone(self) -> Ints:
        return np.flatnonzero(self.rest)


@dataclass(slots=True)
class _Growing:
    """The last plan, and the data needed to move its sequences' ends."""

    plan: DecodePlan
    rows: Ints
    table: Int32  # the blocks of the plan; `capacity` columns
    lengths: Ints
    blocks: Ints  # in use by each sequence
    limits: Ints  # lengths up to which the plan will do
    place: Ints  # where a sequence's block 0 would be in the block index if its last segment began there
    tails: Ints  # the sequences that end in a private item …
    tail_items: Ints  # … and which one of the last phase that is


class DecodePlanner:
    """Plan decode steps for one model and cache; shared by all layers.

    `vector_bytes` is the size of K or V of one token and head as stored, scales included. The plan keeps `processors` busy. Modes:
    `flat` reads each sequence by itself, `prefix-aware` shared blocks once, `auto` the latter where the model of
    `_time` predicts that it is faster by more than `AUTO_MARGIN`.

    Where the same sequences return one step longer, only their ends are moved. Arrays of earlier plans stay valid: later writes
    into a shared `block_index` go into its gaps.
    """

    def __init__(
        self,
        block_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        vector_bytes: float,
        mode: DecodeMode = "auto",
        processors: int = 132,
    ) -> None:
        if mode not in get_args(DecodeMode):
            raise EngineError(f"unknown decode attention {mode!r}", hint=f"one of {', '.join(get_args(DecodeMode))}")
        if min(block_size, num_heads, num_kv_heads, head_dim, processors) < 1 or vector_bytes <= 0:
            raise EngineError(
                f"sizes must be positive, not {block_size=}, {num_heads=}, {num_kv_heads=}, {head_dim=}, {vector_bytes=}, "
                f"{processors=}"
            )
        if num_heads % num_kv_heads:
            raise EngineError(f"{num_heads} query heads cannot be divided among {num_kv_heads} K/V heads")
        self.block_size = block_size
        self.head_dim = head_dim
        self.vector_bytes = vector_bytes
        self.mode = mode
        self.group = num_heads // num_kv_heads
        self.max_queries = max(1, ROWS // self.group)
        self.granule = -(-TILE_TOKENS // block_size) * block_size
        self.slots = (
            processors / num_kv_heads
        )  # items that the device works on at a time, one program for each K/V head
        self.part_bytes = (
            2 * 4 * (head_dim + 1) * self.group
        )  # a partial result of a query and K/V head, written and read
        self.rule = FoldRule(
            block_size, self.max_queries, self.part_bytes / (2 * vector_bytes), least_tokens=LEAST_SHARED_TOKENS
        )
        self._last: _Growing | None = None

    def plan(
        self, block_table: Int32, seq_lens: npt.NDArray[np.integer], rows: npt.NDArray[np.integer] | None = None
    ) -> DecodePlan:
        """Return the plan for sequences of seq_lens[i] tokens, including the decoded one, whose q rows are rows[i] (by default i).

        block_table int32[B, W]: physical blocks; entries from ceil(seq_lens[i] / P) on may be anything. EngineError (a ValueError)
        where these contradict each other.
        """
        lengths, row_ids = self._checked(block_table, seq_lens, rows)
        if self._last is not None and (plan := self._grow(self._last, block_table, lengths, row_ids)) is not None:
            return plan
        self._last = self._plan_anew(block_table, lengths, row_ids)
        return self._last.plan

    def _checked(
        self, table: Int32, seq_lens: npt.NDArray[np.integer], rows: npt.NDArray[np.integer] | None
    ) -> tuple[Ints, Ints]:
        """Return int64[B] lengths and rows of their own."""
        if table.ndim != 2 or table.dtype != np.int32:
            raise EngineError(f"the block table must be int32[B, W], not {table.dtype}{list(table.shape)}")
        count, width = table.shape
        if rows is None:
            rows = np.arange(count)
        for name, values in (("seq_lens", seq_lens), ("rows", rows)):
            if values.shape != (count,) or not np.issubdtype(values.dtype, np.integer):
                raise EngineError(f"{name} is {values.dtype}{list(values.shape)}, the block table has {count} rows")
        if count:
            low, high = int(seq_lens.min()), int(seq_lens.max())
            if low < 1 or high > width * self.block_size:
                raise EngineError(
                    f"sequences of {low} to {high} tokens in a block table of {width} x {self.block_size} tokens"
                )
            if rows.min() < 0 or len(np.unique(rows)) < count:
                raise EngineError(f"q rows must be different and not negative: {rows.tolist()}")
        return seq_lens.astype(np.int64), rows.astype(np.int64)

    # -- a new plan

    def _plan_anew(self, table: Int32, lengths: Ints, rows: Ints) -> _Growing:
        blocks = -(-lengths // self.block_size)
        spare = -(-ROOM_TOKENS // self.block_size)
        division, shares = self._divide(table, lengths)
        block_index, place = _block_index(table, division, blocks, spare)
        tails, order = division.ends_alone, division.order
        private = _Work(
            division.rest[tails], np.ones_like(tails), len(division.members) + tails, place + division.alone_from[tails]
        )
        shared = division.tiles
        sequence = order[np.concatenate([np.array(division.members, dtype=np.int64), np.arange(len(rows))])]
        phases: list[DecodeItems] = []
        part = np.zeros(0, dtype=np.int64)  # the sequence of each partial row
        tail_items = tails
        for work, share in zip((shared, private), shares, strict=True):
            if len(work):
                items, segment, tail_items = self._items(work, share, len(part))
                phases.append(DecodeItems(items, int(work.queries.max())))
                queries = work.queries[segment]
                part = np.concatenate([part, sequence[np.repeat(work.first[segment], queries) + _ragged(queries)]])
        plan = DecodePlan(
            phases=tuple(phases),
            query_index=rows[part].astype(np.int32),
            block_index=block_index,
            part_start=np.concatenate([[0], np.cumsum(np.bincount(part, minlength=len(rows)))]).astype(np.int32),
            part_index=part.argsort(kind="stable").astype(np.int32),
            out_rows=rows.astype(np.int32),
            tokens_read=int(shared.tokens.sum() + private.tokens.sum()),
            flat_tokens=int(lengths.sum()),
            shared=len(shared) > 0,
        )

        limits, places = lengths.copy(), np.zeros_like(lengths)
        if len(tails):
            room = shares[1] + shares[1] // 4 - phases[-1].items[tail_items, 3]
            limits[order[tails]] += np.minimum(room, ROOM_TOKENS)
            places[order[tails]] = place
        kept = np.zeros((len(rows), int(blocks.max(initial=0)) + spare), dtype=np.int32)
        width = min(kept.shape[1], table.shape[1])
        kept[:, :width] = table[:, :width]
        return _Growing(plan, rows, kept, lengths, blocks, limits, places, order[tails], tail_items)

    def _divide(self, table: Int32, lengths: Ints) -> tuple[_Division, tuple[int, int]]:
        """Divide reads into shared and private ones, and choose the maximum length of the items of both phases."""
        count = len(lengths)
        flat = _Division(np.arange(count), [], _NO_WORK, [], np.zeros(count, dtype=np.int64), lengths)
        if self.mode == "flat" or count < 2 or self.max_queries == 1:
            return flat, self._shares(flat)[0]
        order, common = sort_by_blocks(table, lengths // self.block_size)
        if not any(common):
            return flat, self._shares(flat)[0]
        ordered = lengths[order]
        goes_on = (ordered > np.maximum(common, [0, *common[:-1]]) * self.block_size).tolist()
        segments, starts = shared_segments(common, goes_on, self.rule)
        alone_from = np.array(starts)
        tiles, members = self._tiled(segments)
        division = _Division(order, segments, tiles, members, alone_from, ordered - alone_from * self.block_size)
        shares, time = self._shares(division)
        if self.mode == "auto":
            flat_shares, flat_time = self._shares(flat)
            if time * (1 + AUTO_MARGIN) > flat_time:
                return flat, flat_shares
        return division, shares

    def _shares(self, division: _Division) -> tuple[tuple[int, int], float]:
        """Return the maximum lengths of the items of the shared and the private phase, and the modelled time of both."""
        rest = division.rest[division.ends_alone]
        shared = self._time(division.tiles.tokens, division.tiles.queries)
        private = self._time(rest, np.ones_like(rest))
        return (shared[0], private[0]), shared[1] + private[1]

    def _tiled(self, segments: list[Segment]) -> tuple[_Work, list[int]]:
        """Return the segments in tiles of at most `max_queries` and about equally many members, and all their members in a row."""
        tiles: list[tuple[int, int, int, int]] = []
        members: list[int] = []
        place = 0
        for segment in segments:
            tokens, first = (segment.end - segment.start) * self.block_size, len(members)
            members += segment.members
            queries = len(segment.members)
            count = -(-queries // self.max_queries)
            for tile in range(count):
                start, end = queries * tile // count, queries * (tile + 1) // count
                tiles.append((tokens, end - start, first + start, place))
            place += segment.end - segment.start
        return _Work(*np.array(tiles, dtype=np.int64).reshape(-1, 4).T), members

    # -- sharing the work out

    def _time(self, tokens: Ints, queries: Ints) -> tuple[int, float]:
        """Return the maximum length of a phase's items, and the phase's time, in bytes that a processor reads meanwhile.

        The model is Graham's bound for any list schedule, work / machines + the longest piece, minimized over the number of
        programs per processor: shorter pieces spread better, but each costs a start and a partial result for every query.
        """
        if not len(tokens):
            return self.granule, 0.0
        token = self._token_bytes(int(queries.max()))
        piece_bytes = queries * self.part_bytes + PROGRAM_BYTES
        total = int(tokens.sum())
        shares = np.ceil(total / (self.slots * PROGRAMS_PER_PROCESSOR * self.granule)).astype(np.int64) * self.granule
        lengths, pieces = self._cut(tokens, shares[:, None])
        work = total * token + pieces @ piece_bytes
        longest = (np.minimum(lengths, tokens) * token + piece_bytes).max(axis=1)
        time = work / self.slots + longest + LAUNCH_BYTES
        best = int(time.argmin())
        return int(shares[best]), float(time[best])

    def _token_bytes(self, most_queries: int) -> float:
        """Return a token's cost for a program: its K and V or, if these take longer, the dots of all rows of the phase's tile."""
        rows = max(16, (1 << (most_queries - 1).bit_length()) * self.group)
        return max(2 * self.vector_bytes, 4 * rows * self.head_dim / FLOPS_PER_BYTE)

    def _cut(self, tokens: Ints, share: Ints) -> tuple[Ints, Ints]:
        """Return equal lengths, at most `share` tokens, for the pieces of each segment but its last, and the number of pieces."""
        lengths = -(-tokens // (-(-tokens // share) * self.granule)) * self.granule
        return lengths, -(-tokens // lengths)

    def _items(self, work: _Work, share: int, first_part: int) -> tuple[Int32, Ints, Ints]:
        """Return the work cut at block boundaries into pieces of at most `share` tokens, the most expensive first.

        Returns items int32[n, 4], the segment of each, and for each segment which item has its end. Within a phase all programs
        have the same tile, so that a piece's time goes with its tokens, not with its rows.
        """
        lengths, pieces = self._cut(work.tokens, np.array(share))
        segment = np.repeat(np.arange(len(work)), pieces)
        start = _ragged(pieces) * lengths[segment]
        kv_len = np.minimum(lengths[segment], work.tokens[segment] - start)
        queries = work.queries[segment]
        token = self._token_bytes(int(queries.max()))
        order = (-(kv_len * token + queries * self.part_bytes)).argsort(kind="stable")
        items = np.empty((len(order), 4), dtype=np.int32)
        items[:, 1] = queries[order]
        items[:, 0] = first_part + np.cumsum(items[:, 1]) - items[:, 1]
        items[:, 2] = (work.place[segment] + start // self.block_size)[order]
        items[:, 3] = kv_len[order]
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return items, segment[order], rank[np.cumsum(pieces) - 1]

    # -- the same sequences again

    def _grow(self, last: _Growing, table: Int32, lengths: Ints, rows: Ints) -> DecodePlan | None:
        """Return the last plan with its sequences' ends moved; None where it will not do."""
        if len(lengths) != len(last.lengths) or not np.array_equal(rows, last.rows):
            return None
        grown = lengths - last.lengths
        if not grown.size or grown.min() < 0 or (lengths > last.limits).any():
            return None
        width = int(last.blocks.max())
        if (common_blocks(table[:, :width], last.table[:, :width]) < last.blocks).any():
            return None
        if not grown.any():
            return last.plan
        blocks = -(-lengths // self.block_size)
        added = blocks - last.blocks
        if added.any():
            row = np.repeat(np.arange(len(rows)), added)
            column = last.blocks[row] + _ragged(added)
            ids = table[row, column]
            if ids.min() < 0:
                raise EngineError(f"the block table has a block {ids.min()} within a sequence")
            last.table[row, column] = ids
            last.plan.block_index[last.place[row] + column] = ids
        items = last.plan.phases[-1].items.copy()
        items[last.tail_items, 3] += grown[last.tails].astype(np.int32)
        tokens = int(grown.sum())
        last.plan = replace(
            last.plan,
            phases=(*last.plan.phases[:-1], DecodeItems(items, 1)),
            tokens_read=last.plan.tokens_read + tokens,
            flat_tokens=last.plan.flat_tokens + tokens,
        )
        last.lengths, last.blocks = lengths, blocks
        return last.plan


def _block_index(table: Int32, division: _Division, blocks: Ints, spare: int) -> tuple[Int32, Ints]:
    """Return the blocks of the segments and then those that sequences read alone, each with room for `spare` more.

    Also where block 0 of each sequence that ends alone would be, if it were there.
    """
    order, segments, tails = division.order, division.segments, division.ends_alone
    shared = sum(segment.end - segment.start for segment in segments)
    start, end = division.alone_from[tails], blocks[order[tails]]
    room_ends = shared + np.cumsum(end - start + spare)
    index = np.zeros(int(room_ends[-1]) if len(tails) else shared, dtype=np.int32)
    place = room_ends - spare - end
    spans = [(segment.members[0], segment.start, segment.end) for segment in segments]
    spans += zip(tails.tolist(), start.tolist(), end.tolist(), strict=True)
    begins = [0, *itertools.accumulate(segment.end - segment.start for segment in segments)][:-1]
    begins += (place + start).tolist()
    sequences = order.tolist()
    for begin, (position, first, last) in zip(begins, spans, strict=True):
        index[begin : begin + last - first] = table[sequences[position], first:last]
    if index.min(initial=0) < 0:
        raise EngineError(f"the block table has a block {index.min()} within a sequence")
    return index, place


def _ragged(counts: Ints) -> Ints:
    """Return 0 … counts[0] - 1, 0 … counts[1] - 1, and so on."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
