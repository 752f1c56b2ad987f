"""Look up a prompt in groups of equal layers: each kind of attention has its own search.

A search takes the hashes of a prompt, the most tokens that may be hit, and `align`: hits end at its multiples. It returns a table
for each of the groups, with the null block at empty places, and the number of hit tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.free_queue import NULL_BLOCK
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.kv_group import KVGroup

Lookup = Callable[[bytes], int | None]
Found = tuple[list[list[int]], int]


@dataclass(frozen=True, slots=True)
class SameGroups:
    """Groups with equal layers: a block is hit if all of them have it. `unit` tokens have a hash each."""

    group: KVGroup
    indices: tuple[int, ...]
    tags: tuple[bytes, ...]
    unit: int
    drops: bool
    """True if the last found block is dropped, because draft layers cannot use it."""

    @property
    def full(self) -> bool:
        return self.group.kind in ("full", "mla")

    def fine(self, align: int) -> bool:
        """Return whether hits may end inside of a block."""
        size = self.group.block_size
        return align < size and size % align == 0

    def by_block(self, hashes: list[BlockHash]) -> list[BlockHash]:
        """Return the hash of each block: that of its last unit."""
        scale = self.group.block_size // self.unit
        return hashes if scale == 1 else hashes[scale - 1 :: scale]

    def have(self, lookup: Lookup, block_hash: BlockHash) -> list[int] | None:
        """Return the blocks of all these groups with this content; None if one has none."""
        blocks: list[int] = []
        for tag in self.tags:
            block = lookup(block_hash + tag)
            if block is None:
                return None
            blocks.append(block)
        return blocks

    def find(self, lookup: Lookup, hashes: list[BlockHash], most: int, align: int, *, drop: bool) -> Found:
        """Return the search of this kind of layers."""
        match self.group.kind:
            case "sliding":
                return _find_window(self, lookup, hashes, most, align, drop=drop)
            case "chunked":
                return _find_chunk(self, lookup, hashes, most)
            case "mamba":
                return _find_state(self, lookup, hashes, most, align)
            case _:
                return _find_full(self, lookup, hashes, most, align, drop=drop)


def _find_full(
    same: SameGroups, lookup: Lookup, hashes: list[BlockHash], most: int, align: int, *, drop: bool
) -> Found:
    """Search from the left, up to the first missing block."""
    size = same.group.block_size
    by_block = same.by_block(hashes)[: most // size]
    if same.tags == (b"",):
        tables = [list(iter(map(lookup, by_block).__next__, None))]
    else:
        tables = _columns(same, list(iter((same.have(lookup, each) for each in by_block).__next__, None)))
    hit = len(tables[0]) * size
    if same.fine(align):
        first = hit // align
        last = min(first + size // align - 1, most // align, len(hashes))
        for unit in range(last - 1, first - 1, -1):
            if (blocks := same.have(lookup, hashes[unit])) is not None:
                for table, block in zip(tables, blocks, strict=True):
                    table.append(block)
                hit = (unit + 1) * align
                break
    if drop and hit:
        hit -= min(align, size)
    hit -= hit % align
    for table in tables:
        del table[-(-hit // size) :]
    return tables, hit


def _find_window(
    same: SameGroups, lookup: Lookup, hashes: list[BlockHash], most: int, align: int, *, drop: bool
) -> Found:
    """Search from the right for the first run of blocks that fills a window and ends on `align`; earlier blocks are not needed."""
    size, window = same.group.block_size, same.group.window
    assert window is not None
    needed = -(-(window - 1) // size) + drop
    by_block = same.by_block(hashes)
    count = most // size
    _refuse_unhashed(by_block, count)
    run: list[list[int]] = []
    start, filled = 0, False
    for index in range(count - 1, -1, -1):
        blocks = same.have(lookup, by_block[index])
        if blocks is None:
            run.clear()
            continue
        if not run and (index + 1 - drop) * size % align:
            continue
        run.append(blocks)
        if len(run) >= needed:
            start, filled = index, True
            break
    run.reverse()
    if not filled:  # a run from the first block on is enough at any length
        while len(run) * size % align:
            run.pop()
    if drop and start + len(run):
        start, run = _without_last(start, run)
        while (start + len(run)) * size % align:
            start, run = _without_last(start, run)
    tables = [[NULL_BLOCK] * start + column for column in _columns(same, run)]
    return tables, (start + len(run)) * size


def _without_last(start: int, run: list[list[int]]) -> tuple[int, list[list[int]]]:
    return (start, run[:-1]) if run else (start - 1, run)


def _find_chunk(same: SameGroups, lookup: Lookup, hashes: list[BlockHash], most: int) -> Found:
    """Take all blocks before the last chunk without a search; search to the right from there, up to the first missing block."""
    size, chunk = same.group.block_size, same.group.chunk
    assert chunk is not None
    by_block = same.by_block(hashes)
    first, count = most // chunk * chunk // size, most // size
    _refuse_unhashed(by_block, count)
    found = list(iter((same.have(lookup, each) for each in by_block[first:count]).__next__, None))
    tables = [[NULL_BLOCK] * first + column for column in _columns(same, found)]
    return tables, len(tables[0]) * size


def _find_state(same: SameGroups, lookup: Lookup, hashes: list[BlockHash], most: int, align: int) -> Found:
    """Search from the right for the first state that ends on `align`: one is enough."""
    size = same.group.block_size
    if same.fine(align):
        step, places, count = align, hashes, min(most // align, len(hashes))
    else:
        step, places, count = size, same.by_block(hashes), most // size
        _refuse_unhashed(places, count)
    for index in range(count - 1, -1, -1):
        blocks = same.have(lookup, places[index])
        if blocks is not None and (index + 1) * step % align == 0:
            before = [NULL_BLOCK] * (index * step // size)
            return [[*before, block] for block in blocks], (index + 1) * step
    return [[] for _ in same.indices], 0


def _columns(same: SameGroups, rows: Sequence[list[int] | None]) -> list[list[int]]:
    """Return a table for each group, of the blocks by place."""
    return [[row[column] for row in rows if row is not None] for column in range(len(same.indices))]


def _refuse_unhashed(by_block: list[BlockHash], count: int) -> None:
    """Raise EngineError if vLLM 0.33 would read past the hashes of a request, and crash."""
    if count > len(by_block):
        raise EngineError(
            "vLLM 0.33 fails here: it looks up a block with a hash over draft tokens that do not exist yet",
            hint="with several MTP modules, use full attention or `disable_lookahead_block_hashes`",
        )
