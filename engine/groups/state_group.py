"""Linear attention and Mamba: a block is a state, and a table has only the states that a step needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.free_queue import NULL_BLOCK
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.common_hit import draft_groups
from kvtool.engine.groups.group_rules import GroupRules
from kvtool.engine.groups.group_table import ExportedState, GroupTable, SharedTail
from kvtool.engine.groups.kv_group import KVGroup
from kvtool.engine.groups.reachable import reachable_blocks
from kvtool.engine.groups.state_boundaries import can_export, state_boundary
from kvtool.engine.request import Request
from kvtool.engine.vllm_release import find_release

if TYPE_CHECKING:
    from kvtool.engine.groups.group_pool import GroupPool

NEVER = 1 << 62
"""More blocks than any pool has."""


class StateGroup(GroupRules):
    """Layers whose states are kept at the ends of blocks ("align").

    ::

        null … null, [a state that was hit, or at a boundary], null …, the running state, draft states

    The running state is written where the step ends; the one before it is read, and freed a step later. A state that is
    registered in a step cannot be hit in it, because it is not computed yet: `_fresh` contains their keys.
    """

    def __init__(self, pool: GroupPool, index: int, group: KVGroup, tag: bytes, *, drops: bool) -> None:
        super().__init__(pool, index, group, tag, drops=drops)
        plan, config = pool.plan, pool.config
        self._spare = group.spec_blocks
        self._exports = group.ckpt_blocks > 0
        self._earlier = plan.eagle_drop
        """States are kept one block earlier where some group drops the last block of its hits."""
        self._lookahead = plan.num_hash_lookahead
        self._at_junctions = (
            config.enable_mamba_shared_prefix_checkpoint
            and plan.partial_hits
            and plan.num_prefill_lookahead <= 1
            and bool(draft_groups(plan))
        )
        self.keeps_all = False
        same_units = plan.hash_block_size == plan.scheduler_block_size
        once = find_release(config.release).registers_once
        self.settled = once and same_units and not self._exports and plan.num_hash_lookahead <= 1
        self._registers_again = not once
        self._fresh: set[BlockHash] = set()
        self._reach = 2 * pool.plan.hash_block_size + self._lookahead + 1
        """A prompt's last boundary is not so many tokens before its end."""
        if self._at_junctions:
            self._reach = NEVER

    def begin_step(self) -> None:
        """Mark the states registered before as computed."""
        self._fresh.clear()

    def out_of_reach(self, computed: int) -> int:
        return computed - 1

    def blocks_needed(self, num_tokens: int) -> int:
        del num_tokens
        return 1 + self._spare

    def is_fresh(self, hits: list[int]) -> bool:
        """Return whether the hit state is computed only in the step that is being scheduled."""
        return bool(hits) and self.pool.keys.hashes[hits[-1]] in self._fresh

    def quiet_until(self, table: GroupTable) -> int:
        if table.tail is not None or table.checkpoint is not None:
            return 0
        tokens = min((len(table.blocks) - self._spare) * self.size, (table.gone + 1) * self.size + 1)
        last = table.last_state
        if last is not None and table.blocks[last] != NULL_BLOCK:
            tokens = min(tokens, (last + 1) * self.size + 1)
        return tokens

    def give_back(self, table: GroupTable, processed: int) -> None:
        blocks = table.blocks
        if not blocks:
            return
        gone = min((processed - 1) // self.size, len(blocks))
        if gone > table.gone:
            among = blocks[table.gone : gone]
            if any(among):  # few places contain states
                blocks[table.gone : gone] = [NULL_BLOCK] * len(among)
                self.pool.release(list(filter(None, reversed(among))))
            table.gone = gone
        last = table.last_state
        if last is not None and last < -(-processed // self.size) - 1 and blocks[last] != NULL_BLOCK:
            self.pool.release([blocks[last]])
            blocks[last] = NULL_BLOCK

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
        del needed  # layers of drafts have no states
        if self.is_fresh(hits):
            return NEVER
        new = -(-main // self.size) + self._spare - len(hits) - len(table.blocks)
        copies = bool(hits and computed % self.size) or table.tail is not None
        if copies:
            new = max(new, 0) + 1
        exports = False
        if self._exports:
            position = state_boundary(main, self.align, drops=self._earlier, lookahead=self._lookahead)
            exports = position > 0 and self._is_exported(table, computed, main, position, prefill_end)
            if not capped:
                table.checkpoint = ExportedState(position, -(-main // self.size) - 2) if exports else None
        if new > 0:
            new = min(new, 1 + copies + exports + (0 if table.begun else self._spare))
        return new + self.pool.num_waking(hits[-1:])

    def _is_exported(self, table: GroupTable, start: int, end: int, position: int, prefill_end: int) -> bool:
        """Return whether this step exports a state to a block of its own."""
        index = -(-end // self.size) - 2
        blocks = table.blocks
        return (
            end >= prefill_end
            and can_export(
                start, end, position,
                unit=self.pool.plan.hash_block_size, block=self.size, every=self.group.ckpt_align,
            )
            and index >= 0
            and (
                index >= len(blocks)
                or blocks[index] == NULL_BLOCK
                or (table.begun and index >= len(blocks) - self._spare)
            )
        )  # fmt: skip

    def extend(self, table: GroupTable, needed: int, main: int) -> None:
        del needed
        blocks, spare, tail = table.blocks, self._spare, table.tail
        required = -(-main // self.size) + spare
        exports = table.checkpoint is not None
        begun, before = table.begun, len(blocks)
        table.begun = True
        if required <= before and tail is None and not exports:
            return
        if begun:
            table.last_state = before - 1 - spare
        elif before:
            table.last_state = before - 1  # the state that was hit
        skipped = required - spare - 1
        if before < skipped:
            blocks += [NULL_BLOCK] * (skipped - exports - before)
        if begun:
            for index in range(before - spare, min(before, skipped - exports)):
                self._move_along(blocks, index)
        new = max(required - len(blocks), 0) + (tail is not None)
        most = 1 + (tail is not None) + exports + (0 if begun else spare)
        if new > most:
            raise EngineError(f"vLLM 0.33 fails here: a step takes {new} states of a request, more than {most}")
        taken = self.pool.take(new)
        if tail is not None:
            table.tail = None
            copy = taken.pop(0)
            if begun:
                self._leave_copy(table, tail, copy)
            else:
                self.copy_tail(table, tail.place, tail.block, copy)
        blocks += taken

    def _move_along(self, blocks: list[int], index: int) -> None:
        """Turn a spare state that the step leaves behind into a spare state again."""
        block = blocks[index]
        if block == NULL_BLOCK or self.pool.keys.holds(block) or self.pool.is_shared(block):
            raise EngineError("vLLM 0.33 fails here: it registers a state for drafts, so it cannot move the state")
        blocks.append(block)
        blocks[index] = NULL_BLOCK

    def _leave_copy(self, table: GroupTable, tail: SharedTail, copy: int) -> None:
        """Continue the request in its block; the copy gets the block's cached content."""
        pool, source = self.pool, tail.block
        assert table.blocks[tail.place] == source
        pool.keys.move(source, copy)
        pool.copy_later(self, source, copy)
        pool.hold([source])
        key = pool.keys.hashes[copy]
        if key is not None:
            self._fresh.add(key)

    def register(self, request: Request, table: GroupTable, tokens: int, boundaries: list[int]) -> None:
        before = table.registered
        self.register_full(request, table, tokens, boundaries)
        after = table.registered
        if not self.settled and (key := self._register_part(request, table, tokens)) is not None:
            self._fresh.add(key)
        hashes = self.pool.keys.hashes
        for block in filter(None, table.blocks[before:after]):
            if (own := hashes[block]) is not None:
                self._fresh.add(own)

    def _register_part(self, request: Request, table: GroupTable, tokens: int) -> BlockHash | None:
        """Register an exported state, or the one at the prompt's last unit; return its key."""
        pool = self.pool
        if table.checkpoint is not None:
            return self._register_export(request, table, table.checkpoint)
        unit = pool.plan.hash_block_size
        if tokens <= 0 or tokens % unit or not (tokens <= request.num_prompt_tokens < tokens + self._reach):
            return None
        at_end = tokens == state_boundary(
            request.num_prompt_tokens, unit, drops=self._earlier, lookahead=self._lookahead
        )
        at_junction = (
            self._at_junctions
            and tokens == request.shared_prefix_boundary
            and request.num_computed_tokens < tokens <= request.num_prompt_tokens
        )
        index = -(-tokens // self.size) - 1
        if not (at_end or at_junction) or index >= len(table.blocks):
            return None
        block = table.blocks[index]
        if block == NULL_BLOCK:
            return None
        registered = pool.keys.holds(block) and pool.keys.tokens[block] == tokens
        if registered and not self._registers_again:
            return None
        key = pool.keys.hashes[block] if registered else pool.store_part(request, self, block, tokens)
        if tokens % self.size:
            table.tail = SharedTail(index, block)
            table.registered = index
        return key

    def _register_export(self, request: Request, table: GroupTable, checkpoint: ExportedState) -> BlockHash | None:
        pool, (position, index) = self.pool, checkpoint
        if index >= len(table.blocks):
            raise EngineError("vLLM 0.33 fails here: it exports a state to a block that the request does not have")
        block = table.blocks[index]
        of_prompt = position == state_boundary(
            request.num_prompt_tokens, self.align, drops=self._earlier, lookahead=self._lookahead
        )
        retained = False
        if position % self.size == 0:
            place = position // self.size - 1
            kept = reachable_blocks(
                self.group, range(place, place + 1), self.align, pool.config.prefix_cache_retention_interval, [],
                drops=self._earlier,
            )  # fmt: skip
            retained = kept is None or bool(kept)
        if not (of_prompt or retained or position == request.shared_prefix_boundary):
            pool.forget(block)
            return None
        if pool.keys.holds(block) and pool.keys.tokens[block] == position:
            return None
        return pool.store_part(request, self, block, position, anew=True)

    def check(self, table: GroupTable, request: Request) -> None:
        del request
        assert not any(table.blocks[: table.gone])
