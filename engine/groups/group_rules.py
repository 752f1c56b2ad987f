"""Rules of a group of layers: the blocks of a request's table that it needs, keeps, frees and registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.engine.blocks.free_queue import NULL_BLOCK
from kvtool.engine.groups.group_table import GroupTable, SharedTail
from kvtool.engine.groups.kv_group import KVGroup
from kvtool.engine.groups.reachable import reachable_blocks
from kvtool.engine.request import Request
from kvtool.engine.vllm_release import find_release

if TYPE_CHECKING:
    from kvtool.engine.groups.group_pool import GroupPool


class GroupRules:
    """Layers with full attention, or its MLA form; classes of their own implement other kinds.

    `drops`: its hits are looked up one block further, which is dropped again. `align`: hits end at its multiples.
    """

    def __init__(self, pool: GroupPool, index: int, group: KVGroup, tag: bytes, *, drops: bool) -> None:
        self.pool = pool
        self.index = index
        self.group = group
        self.tag = tag
        self.size = group.block_size
        self.scale = group.block_size // pool.plan.hash_block_size
        self.drops = drops
        self._keeps_below_junctions = drops and find_release(pool.config.release).keeps_below_junctions
        self.align = pool.plan.hit_alignment
        self.keeps_all = self.scale == 1
        """True if all blocks that become full are registered, and had no content before."""
        self.settled = self.scale == 1
        """True if only blocks that become full are registered."""
        self.most_admitted: int | None = None
        """The most blocks of one request, which it needs for admission; None if that is all."""

    def out_of_reach(self, computed: int) -> int:
        """Return tokens that no layer reads any more once so many are computed."""
        del computed
        return 0

    def quiet_until(self, table: GroupTable) -> int:
        """Return the tokens, without drafts, that the request may have in all before it needs or frees a block."""
        spare = self.pool.plan.num_lookahead_tokens
        return len(table.blocks) * self.size - spare

    def slots(self, needed: int, main: int) -> int:
        """Return the tokens that need room, from those with drafts (`needed`) and without (`main`)."""
        del main
        return needed

    def blocks_needed(self, num_tokens: int) -> int:
        """Return blocks without which a request of so many tokens could never be computed to its end."""
        return -(-num_tokens // self.size) - self.out_of_reach(num_tokens - 1) // self.size

    def give_back(self, table: GroupTable, processed: int) -> None:
        """Free the blocks that no step reads any more once so many tokens are processed."""
        gone = self.out_of_reach(processed) // self.size
        if gone <= table.gone:
            return
        blocks = table.blocks
        freed: list[int] = []
        for index in range(min(gone, len(blocks)) - 1, -1, -1):
            if blocks[index] == NULL_BLOCK:
                break
            freed.append(blocks[index])
            blocks[index] = NULL_BLOCK
        table.gone = min(gone, len(blocks))
        if freed:
            self.pool.release(freed)

    def need(
        self,
        table: GroupTable,
        needed: int,
        main: int,
        hits: list[int],
        computed: int,
        *,
        capped: bool,
        prefill_end: int,
    ) -> int:
        """Return the free blocks to take for `needed` tokens, of which `main` are no drafts and `computed` are computed or hit.

        `capped` is for admission: the most blocks of a request, for any length.
        """
        del prefill_end
        required = -(-self.slots(needed, main) // self.size)
        if capped and self.most_admitted is not None:
            required = min(required, self.most_admitted)
        if not hits:
            return max(required - len(table.blocks), 0)
        gone = max(self.out_of_reach(computed) // self.size, 0)
        new = max(required - max(gone, len(hits)), 0)
        return new + self.pool.num_waking(hits[gone:]) + (computed % self.size != 0)

    def adopt(self, table: GroupTable, hits: list[int], computed: int) -> list[int]:
        """Take over the hit blocks that are needed after `computed` tokens; return the blocks to use."""
        gone = max(self.out_of_reach(computed) // self.size, 0)
        hits = hits[gone:]
        table.blocks = [NULL_BLOCK] * gone + hits
        table.registered = len(table.blocks)
        if hits and computed % self.size:
            index = computed // self.size
            table.tail = SharedTail(index, hits[-1])
            table.registered = index
        return hits

    def extend(self, table: GroupTable, needed: int, main: int) -> None:
        """Take the blocks that `need` counted, and copy a shared tail."""
        if table.tail is not None:
            index, source = table.tail
            table.tail = None
            (copy,) = self.pool.take(1)
            self.copy_tail(table, index, source, copy)
        missing = -(-self.slots(needed, main) // self.size) - len(table.blocks)
        if missing > 0:
            table.blocks += self.pool.take(missing)

    def copy_tail(self, table: GroupTable, index: int, source: int, copy: int) -> None:
        """Replace a shared block by a copy. Both are in use until the step that copies is scheduled."""
        assert table.blocks[index] == source
        table.blocks[index] = copy
        self.pool.copy_later(self, source, copy)
        self.pool.hold([copy])

    def register(self, request: Request, table: GroupTable, tokens: int, boundaries: list[int]) -> None:
        """Register the blocks that the first `tokens` tokens fill, as far as a hit could need them."""
        self.register_full(request, table, tokens, boundaries)
        if self.scale > 1:
            self._register_tail(request, table, tokens)

    def register_full(self, request: Request, table: GroupTable, tokens: int, boundaries: list[int]) -> None:
        """Register full blocks only."""
        pool = self.pool
        full = min(tokens, len(request.block_hashes) * pool.plan.hash_block_size) // self.size
        first = table.registered
        if full <= first:
            return
        kept, this = None, (self.group.spec_id, first, full)
        if not self.keeps_all:
            if this not in pool.kept:
                pool.kept[this] = self._reachable(request, range(first, full), boundaries)
            kept = pool.kept[this]
        pool.store_full(request, self, table, first, full, kept)
        table.registered = full

    def _reachable(self, request: Request, blocks: range, boundaries: list[int]) -> list[int] | None:
        """Return the blocks that a hit could need; None for all."""
        if junction := request.shared_prefix_boundary:
            boundaries = [*boundaries, junction, *([junction - self.size] if self._keeps_below_junctions else [])]
        retention = self.pool.config.prefix_cache_retention_interval
        return reachable_blocks(self.group, blocks, self.align, retention, boundaries, drops=self.drops)

    def _register_tail(self, request: Request, table: GroupTable, tokens: int) -> None:
        """Have the prompt's last unit found, where it ends inside of a block."""
        unit = self.pool.plan.hash_block_size
        known = request.num_prompt_tokens if self.drops else request.num_prompt_tokens - 1
        boundary = min(known // unit, len(request.block_hashes)) * unit
        if not boundary or boundary > tokens or boundary % self.size == 0:
            return
        index = boundary // self.size
        if index < len(table.blocks):
            self.pool.store_part(request, self, table.blocks[index], boundary)

    def check(self, table: GroupTable, request: Request) -> None:
        """Assert that the table covers the computed tokens, and that forbidden places are empty."""
        assert len(table.blocks) * self.size >= request.num_computed_tokens
        assert not any(table.blocks[: table.gone])


class WindowGroup(GroupRules):
    """Layers that see a window."""

    def __init__(self, pool: GroupPool, index: int, group: KVGroup, tag: bytes, *, drops: bool) -> None:
        super().__init__(pool, index, group, tag, drops=drops)
        assert group.window is not None
        self._window = group.window - 1 + group.extra_retained
        held = min(self._window + pool.in_flight_tokens, pool.config.max_model_len)
        self.most_admitted = -(-held // self.size) + 1
        self.keeps_all, self.settled = False, True

    def quiet_until(self, table: GroupTable) -> int:
        return min(super().quiet_until(table), (table.gone + 1) * self.size + self._window)

    def out_of_reach(self, computed: int) -> int:
        return max(0, computed - self._window)

    def register(self, request: Request, table: GroupTable, tokens: int, boundaries: list[int]) -> None:
        self.register_full(request, table, tokens, boundaries)


class ChunkGroup(GroupRules):
    """Layers that see the chunk that a token is in."""

    def __init__(self, pool: GroupPool, index: int, group: KVGroup, tag: bytes, *, drops: bool) -> None:
        super().__init__(pool, index, group, tag, drops=drops)
        assert group.chunk is not None
        self._chunk = group.chunk
        self.most_admitted = -(-min(group.chunk + pool.in_flight_tokens, pool.config.max_model_len) // self.size)

        self.keeps_all, self.settled = False, True

    def quiet_until(self, table: GroupTable) -> int:
        return min(super().quiet_until(table), -(-(table.gone + 1) * self.size // self._chunk) * self._chunk)

    def out_of_reach(self, computed: int) -> int:
        return computed // self._chunk * self._chunk

    def register(self, request: Request, table: GroupTable, tokens: int, boundaries: list[int]) -> None:
        self.register_full(request, table, tokens, boundaries)


class RunningStateGroup(GroupRules):
    """Layers with a state, of which only the running one is kept, as without caching."""

    def out_of_reach(self, computed: int) -> int:
        return computed - 1

    def quiet_until(self, table: GroupTable) -> int:
        del table
        return 0

    def slots(self, needed: int, main: int) -> int:
        del main
        return needed + self.size * self.group.spec_blocks
