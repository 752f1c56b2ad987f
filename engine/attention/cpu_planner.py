"""Plan a step's attention on a CPU: shared reads in place, parts joined first, and parts kept as a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from kvtool.engine.attention.block_tree import FoldRule, Ints, shared_segments, sort_by_blocks
from kvtool.engine.attention.cpu_costs import CpuCosts
from kvtool.engine.attention.cpu_plan import ContextPart, CpuPlan, Fresh, Rows, Tails
from kvtool.engine.attention.window_tile import QUERY_TILE, WindowTile
from kvtool.engine.batch import Batch, Owner
from kvtool.engine.config import DecodeMode

RUN_TOKENS = 512
"""Least length of consecutive blocks of one request that are read in place; a copy of fewer costs less."""

SHARED_RUN_TOKENS = 64
"""The same for blocks of several requests, which are put together in each step where they are not read in place."""

ROOM_TOKENS = 64
"""Room for growth of copied tails before they are made anew."""

KEPT_BYTES = 512 << 20
"""Limit of copied tails, in all layers; above it, each layer of each step joins them again."""

LEAST_SHARED_TOKENS = 64
"""Least tokens that `prefix-aware` reads together; `auto` measures its own limit."""

_ANY_NUMBER = 1 << 30
"""A bound that no window and no number of queries reaches."""


@dataclass(slots=True)
class _Growing:
    """The last plan of a step in which every request had one query."""

    plan: CpuPlan
    owners: tuple[Owner, ...]
    lengths: Ints
    tails_of: list[Ints]  # the requests of each of the plan's tails


class CpuPlanner:
    """Plan the steps of one model and cache; remember the last step, so that decode reuses its copies.

    `flat`: each request reads its own blocks. `prefix-aware`: tokens that requests share before their new tokens are read once.
    `auto`: the faster one, by costs measured at the first shared prefix.

    With a `window`, longer requests read only their new tokens' windows, each separately; earlier blocks are not read, whatever
    they contain.
    """

    def __init__(
        self,
        block_size: int,
        *,
        token_bytes: int,
        mode: DecodeMode,
        measure_costs: Callable[[], CpuCosts],
        window: int | None = None,
    ) -> None:
        """Create the planner. `token_bytes` are those of K and V of a token in all layers."""
        self.block_size = block_size
        self._window = _ANY_NUMBER if window is None else window
        self._token_bytes = token_bytes
        self._mode = mode
        self._measure = measure_costs
        self._rule: FoldRule | None = None
        self._last: _Growing | None = None

    def plan(self, batch: Batch) -> CpuPlan:
        """Return the plan of a batch whose tensors are on the CPU."""
        query_start, lengths = batch.query_start.numpy().astype(np.int64), batch.seq_lens.numpy().astype(np.int64)
        counts = np.diff(query_start)
        if self._last is not None and (plan := self._grow(self._last, batch, counts, lengths)) is not None:
            return plan
        self._last = None
        active = np.flatnonzero(counts)
        plan, tails_of = self._plan_anew(batch.block_table.numpy(), query_start, counts, lengths, active)
        if batch.owners and (counts == 1).all():
            self._last = _Growing(plan, batch.owners, lengths, tails_of)
        return plan

    def _grow(self, last: _Growing, batch: Batch, counts: Ints, lengths: Ints) -> CpuPlan | None:
        """Return the last plan for the same requests, none or one token later; None where it will not do."""
        if batch.owners != last.owners or (counts != 1).any():
            return None
        grown = lengths - last.lengths
        if grown.min() < 0 or grown.max() > 1:
            return None
        if ((lengths > self._window) != (last.lengths > self._window)).any():
            return None
        if any(tails.longest + 1 > tails.room for tails in last.plan.tails):
            return None
        for tails, requests in zip(last.plan.tails, last.tails_of, strict=True):
            tails.advance(torch.from_numpy(grown[requests]), batch.slot_mapping[torch.from_numpy(requests)])
        added = int(grown.sum())
        last.plan = replace(
            last.plan, tokens_read=last.plan.tokens_read + added, flat_tokens=last.plan.flat_tokens + added
        )
        last.lengths = lengths
        return last.plan

    def _plan_anew(
        self, table: npt.NDArray[np.int32], query_start: Ints, counts: Ints, lengths: Ints, active: Ints
    ) -> tuple[CpuPlan, list[Ints]]:
        beyond = lengths > self._window
        # Full blocks that all queries see; of requests that are longer than the window, the block from which on they read.
        before = np.where((counts > 0) & ~beyond, (lengths - counts) // self.block_size, 0)
        first = np.where(beyond, np.maximum(lengths - counts + 1 - self._window, 0) // self.block_size, before)
        contexts, alone_from = self._shared(table, before, query_start)
        rest: list[npt.NDArray[np.int32]] = [table[0, :0]] * len(lengths)  # blocks to be read with the new tokens
        for request in active.tolist():
            runs, scattered = self._runs(table[request, alone_from[request] : before[request]], RUN_TOKENS)
            if (
                counts[request] == 1 or len(scattered) * self.block_size < RUN_TOKENS
            ):  # read with the request's private part
                rest[request], scattered = scattered, scattered[:0]
            if runs or len(scattered):
                rows = slice(int(query_start[request]), int(query_start[request + 1]))
                contexts.append(ContextPart(rows, runs, _ids(scattered)))
        last_blocks = -(-lengths // self.block_size)
        own = [
            np.concatenate([rest[request], table[request, first[request] : last_blocks[request]]])
            for request in range(len(lengths))
        ]
        tail_lengths = lengths - first * self.block_size + np.array([len(part) for part in rest]) * self.block_size
        single, several = active[counts[active] == 1], active[counts[active] > 1]
        tails, tails_of = self._tails(single[~beyond[single]], own, tail_lengths, query_start, None)
        if beyond.any():
            sliding, sliding_of = self._tails(single[beyond[single]], own, tail_lengths, query_start, self._window)
            tails, tails_of = tails + sliding, tails_of + sliding_of
        fresh = self._fresh(several[~beyond[several]], own, tail_lengths, counts, query_start)
        tiles = [
            tile
            for request in several[beyond[several]].tolist()
            for tile in self._tiles(
                own[request], int(tail_lengths[request]), int(counts[request]), query_start[request]
            )
        ]
        read = int(tail_lengths[active].sum()) + self.block_size * sum(
            sum(last - first for first, last in context.runs) + len(context.scattered) for context in contexts
        )
        plan = CpuPlan(tuple(tails), tuple(fresh), tuple(contexts), tuple(tiles), read, int(lengths[active].sum()))
        return plan, tails_of

    # -- shared reads

    def _shared(
        self, table: npt.NDArray[np.int32], before: Ints, query_start: Ints
    ) -> tuple[list[ContextPart], list[int]]:
        """Return contexts of two and more requests, and the block from which on each request reads alone."""
        nothing = [0] * len(before)
        if self._mode == "flat" or len(before) < 2 or not before.any():
            return [], nothing
        order, common = sort_by_blocks(table, before)
        if not any(common):
            return [], nothing
        segments, starts = shared_segments(common, [True] * len(before), self._fold_rule())
        alone_from = nothing
        for position, request in enumerate(order.tolist()):
            alone_from[request] = starts[position]
        contexts = []
        for segment in segments:
            members = np.sort(order[segment.members])
            runs, scattered = self._runs(table[members[0], segment.start : segment.end], SHARED_RUN_TOKENS)
            rows = np.concatenate([np.arange(query_start[member], query_start[member + 1]) for member in members])
            contexts.append(ContextPart(_rows(rows), runs, _ids(scattered)))
        return contexts, alone_from

    def _fold_rule(self) -> FoldRule:
        if self._rule is None:
            part, least = float(LEAST_SHARED_TOKENS), LEAST_SHARED_TOKENS
            if self._mode == "auto":
                costs = self._measure()
                part, least = costs.part_tokens, costs.least_tokens
            self._rule = FoldRule(self.block_size, _ANY_NUMBER, part, least)
        return self._rule

    def _runs(
        self, blocks: npt.NDArray[np.int32], least: int
    ) -> tuple[tuple[tuple[int, int], ...], npt.NDArray[np.int32]]:
        """Return ranges of at least so many tokens that the blocks make up in any order, and the blocks that are in none."""
        if len(blocks) * self.block_size < least:
            return (), blocks
        ordered = np.sort(blocks)
        ends = np.append(np.flatnonzero(np.diff(ordered) != 1) + 1, len(ordered))
        starts = np.append(0, ends[:-1])
        long = (ends - starts) * self.block_size >= least
        runs = tuple(
            (int(ordered[start]), int(ordered[end - 1]) + 1)
            for start, end in zip(starts[long], ends[long], strict=True)
        )
        return runs, ordered[np.repeat(~long, ends - starts)]

    # -- private reads

    def _tails(
        self,
        requests: Ints,
        own: list[npt.NDArray[np.int32]],
        lengths: Ints,
        query_start: Ints,
        window: int | None,
    ) -> tuple[list[Tails], list[Ints]]:
        """Return tails of about the same length are read together: of each length up to the next power of two."""
        tails: list[Tails] = []
        members: list[Ints] = []
        sizes = np.maximum(2 ** np.ceil(np.log2(lengths[requests])), ROOM_TOKENS).astype(np.int64)
        total = int(sum((int(size) + ROOM_TOKENS) * int((sizes == size).sum()) for size in np.unique(sizes)))
        kept = total * self._token_bytes <= KEPT_BYTES
        for size in np.unique(sizes):
            chosen = requests[sizes == size]
            room = int(lengths[chosen].max()) + ROOM_TOKENS
            table = np.zeros((len(chosen), -(-room // self.block_size)), dtype=np.int64)
            for row, request in zip(table, chosen.tolist(), strict=True):
                row[: len(own[request])] = own[request]
            at = lengths[chosen] - 1
            newest = table[np.arange(len(chosen)), at // self.block_size] * self.block_size + at % self.block_size
            tails.append(
                Tails(
                    rows=_rows(query_start[chosen]),
                    table=torch.from_numpy(table),
                    lengths=torch.from_numpy(lengths[chosen]),
                    newest=torch.from_numpy(newest),
                    room=room,
                    block_size=self.block_size,
                    kept=kept,
                    window=window,
                )
            )
            members.append(chosen)
        return tails, members

    def _fresh(
        self,
        requests: Ints,
        own: list[npt.NDArray[np.int32]],
        lengths: Ints,
        counts: Ints,
        query_start: Ints,
    ) -> list[Fresh]:
        """Return requests with as many new tokens and as much before them are computed together."""
        groups: dict[tuple[int, int], list[int]] = {}
        for request in requests.tolist():
            groups.setdefault((int(counts[request]), int(lengths[request])), []).append(request)
        fresh = []
        for (count, length), members in groups.items():
            blocks = own[members[0]]
            consecutive = len(members) == 1 and bool((np.diff(blocks) == 1).all())
            rows = np.concatenate([np.arange(query_start[member], query_start[member + 1]) for member in members])
            fresh.append(
                Fresh(
                    rows=_rows(rows),
                    requests=len(members),
                    before=length - count,
                    length=length,
                    blocks=_ids(np.concatenate([own[member] for member in members])),
                    run=(int(blocks[0]), int(blocks[-1]) + 1) if consecutive else None,
                )
            )
        return fresh

    def _tiles(self, own: npt.NDArray[np.int32], length: int, count: int, first_row: int) -> Iterator[WindowTile]:
        """Return tiles of the last `count` of a request's `length` tokens in its `own` blocks."""
        before = length - count
        for start in range(before, length, QUERY_TILE):
            stop = min(start + QUERY_TILE, length)
            low = max(start + 1 - self._window, 0)
            block = low // self.block_size
            yield WindowTile(
                rows=slice(first_row + start - before, first_row + stop - before),
                blocks=_ids(own[block : -(-stop // self.block_size)]),
                skipped=low - block * self.block_size,
                length=stop - low,
                window=self._window,
            )


def _ids(blocks: npt.NDArray[np.int32]) -> torch.Tensor:
    return torch.from_numpy(blocks.astype(np.int64))


def _rows(rows: Ints) -> Rows:
    """Return a slice where rows are consecutive."""
    if int(rows[-1]) - int(rows[0]) + 1 == len(rows) and bool((np.diff(rows) == 1).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return torch.from_numpy(rows)
