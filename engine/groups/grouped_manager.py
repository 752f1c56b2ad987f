"""The block manager of any number of groups of layers over one pool of blocks."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.block_pool import BlockPool
from kvtool.engine.blocks.extra_keys import extra_keys
from kvtool.engine.blocks.free_queue import NULL_BLOCK, FreeQueue
from kvtool.engine.blocks.hashing import block_hasher, extend_hashes
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.events import BlockRemoved, BlockStored
from kvtool.engine.groups.common_hit import CommonHit, CommonHits, draft_groups
from kvtool.engine.groups.group_pool import GroupOfPool
from kvtool.engine.groups.group_rules import ChunkGroup, GroupRules, RunningStateGroup, WindowGroup
from kvtool.engine.groups.group_table import GroupTable
from kvtool.engine.groups.keyed_blocks import KeyedBlocks, group_tag, split_key
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.reachable import replay_boundaries
from kvtool.engine.groups.state_group import StateGroup
from kvtool.engine.request import Ids, Request

_KINDS: dict[str, type[GroupRules]] = {"sliding": WindowGroup, "chunked": ChunkGroup, "mamba": StateGroup}


class GroupedManager(BlockPool):
    """Paged KV blocks and states with vLLM V1's prefix caching, for layers of several kinds.

    Every group has its own table for a request (`Request.tables`); all blocks come from one pool. A content is cached once for
    each group; a hit needs all groups.
    """

    def __init__(self, config: EngineConfig, *, record_events: bool = False) -> None:
        assert config.plan is not None
        self.plan: CachePlan = config.plan
        hasher = block_hasher(config.hash_algo, config.hash_seed)
        num_blocks = config.num_blocks if config.num_blocks is not None else 1
        self.keys = KeyedBlocks(num_blocks, self.plan.hash_block_size, hasher)
        super().__init__(config, self.keys, FreeQueue(num_blocks), record_events=record_events)
        self.in_flight_tokens = config.max_num_batched_tokens * (2 if config.async_scheduling else 1)
        self._tag_order = self._tags()
        tags = [group_tag(self._tag_order.index(index)) for index in range(len(self.plan.groups))]
        self._hits = CommonHits(self.plan, tags)
        self.groups = [
            self._group_class(index)(self, index, group, tags[index], drops=index in self._hits.dropping)
            for index, group in enumerate(self.plan.groups)
        ]
        self._states = [group for group in self.groups if isinstance(group, StateGroup)]
        self._found = CommonHit([], 0, 0)
        self.kept: dict[tuple[int, int, int], list[int] | None] = {}
        """Blocks to keep in the current registration, by kind of layers and range of places."""
        self._copies: list[list[tuple[int, int]]] = [[] for _ in self.groups]
        """Copies before the step that is being scheduled, by group."""
        self._drops = bool(self._hits.dropping)
        self._estimates = not any(group.group.ckpt_blocks for group in self.groups)
        self._sizes = [group.size for group in self.groups if not isinstance(group, StateGroup)]
        self._constant_need = sum(2 * group.group.spec_blocks + 4 for group in self.groups)
        self._can_skip_checks = (
            not self._drops
            and not self.plan.partial_hits
            and all(group.scale == 1 for group in self.groups if group.group.kind in ("full", "mla"))
        )
        """True if the next check of a request can be computed in advance."""
        self._lag = max(self.plan.num_prefill_lookahead - 1, 0)
        """Trailing tokens that several draft modules may compute once more."""
        if any(group.drops and group.group.kind == "chunked" for group in self.groups):
            raise EngineError(
                "vLLM 0.33 has no chunked attention in groups that drop the last block of a hit",
                hint="leave `disable_lookahead_block_hashes` off, its default",
            )
        if config.enable_prefix_caching and draft_groups(self.plan):
            size, ahead = self.plan.scheduler_block_size, self.plan.num_prefill_lookahead
            if size < ahead:
                raise EngineError(f"{ahead} draft modules need blocks of at least as many tokens, not {size}")

    def _tags(self) -> list[int]:
        """Return groups in the order of their tags: the first with full attention, which has most blocks, needs none."""
        indices = range(len(self.plan.groups))
        first = next((index for index in indices if self.plan.groups[index].kind in ("full", "mla")), 0)
        return [first, *(index for index in indices if index != first)]

    def _group_class(self, index: int) -> type[GroupRules]:
        group = self.plan.groups[index]
        if group.kind == "mamba" and not group.mamba_align:
            return RunningStateGroup
        return _KINDS.get(group.kind, GroupRules)

    def begin_step(self) -> None:
        for group in self._states:
            group.begin_step()

    def end_step(self) -> tuple[tuple[int, int], ...]:
        copies = tuple(pair for pairs in self._copies for pair in pairs)
        if copies:
            self._copies = [[] for _ in self.groups]
            self.release([block for pair in copies for block in pair])
        return copies

    def look_up(self, request: Request) -> int:
        self._found = self.match(request)
        request.shared_prefix_boundary = self._found.junction
        return self._found.tokens

    def match(self, request: Request) -> CommonHit:
        """Return the longest prefix that all groups have cached of a request of which nothing is computed, less its last token."""
        if not self.config.enable_prefix_caching or request.skip_reading_cache:
            return CommonHit([[] for _ in self.groups], 0, 0)
        self._extend_hashes(request)
        return self._hits.find(self.keys.lookup, request.block_hashes, request.num_tokens - 1)

    def _extend_hashes(self, request: Request) -> None:
        plan = self.plan
        extend_hashes(request, plan.hash_block_size, self.keys.hasher, plan.num_hash_lookahead)

    def admit(self, request: Request, num_new: int, *, reserve: int = 0, whole: bool = False) -> bool:
        return self._allocate(request, num_new, self._found, reserve=reserve, whole=whole)

    def allocate(self, request: Request, num_new: int) -> bool:
        if request.num_computed_tokens + num_new <= request.quiet_until:
            return True
        return self._allocate(request, num_new, None, reserve=0, whole=False)

    def _allocate(self, request: Request, num_new: int, hit: CommonHit | None, *, reserve: int, whole: bool) -> bool:
        if not request.tables:
            request.tables = [GroupTable() for _ in self.groups]
        tables, most = request.tables, self.config.max_model_len
        computed = request.num_computed_tokens + (hit.tokens if hit is not None else 0)
        main = computed + num_new
        slots = min(main + self.plan.num_lookahead_tokens, most)
        all_tokens = min(request.num_tokens, most) if whole else 0
        # If any request of this length fits, its own needs are not counted.
        ample = self._estimates and self._most_needed(max(slots, all_tokens)) + reserve <= self.num_free
        prefill_end = 0
        if self.config.prefix_cache_retention_interval == 0:
            prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if whole and not ample:
            need = self._need(tables, all_tokens, all_tokens, hit, computed, prefill_end, capped=True)
            if need + reserve > self.num_free:
                return False
        if ample and hit is not None and any(group.is_fresh(hit.tables[group.index]) for group in self._states):
            return False
        processed = max(0, computed - request.num_in_flight_tokens)
        if request.num_computed_tokens:
            for group, table in zip(self.groups, tables, strict=True):
                group.give_back(table, processed)
        if not ample and self._need(tables, slots, main, hit, computed, prefill_end) + reserve > self.num_free:
            return False
        if hit is not None and hit.tokens:
            held: list[int] = []
            for group, table, blocks in zip(self.groups, tables, hit.tables, strict=True):
                held += group.adopt(table, blocks, computed)
            self.hold(held)
        for group, table in zip(self.groups, tables, strict=True):
            group.extend(table, slots, main)
        used = self.num_blocks - 1 - self.free_queue.size
        if used > self.peak_used:
            self.peak_used = used
        self._register(request, min(main, request.num_tokens))
        if self._can_skip_checks and main >= request.num_tokens and len(request.outputs) + 1 < request.max_tokens:
            request.quiet_until = self._quiet_until(request, min(main, request.num_tokens))
        return True

    def _quiet_until(self, request: Request, num_tokens: int) -> int:
        """Return tokens up to which nothing has to be done for a request of which so many were registered."""
        tables = request.tables
        quiet = min([group.quiet_until(table) for group, table in zip(self.groups, tables, strict=True)])
        if self.config.enable_prefix_caching:
            size = self.plan.scheduler_block_size
            full = max(0, num_tokens - self._lag) // size
            for group, table in zip(self.groups, tables, strict=True):
                if table.registered * group.size < full * size:
                    return 0  # a hash is awaited
            quiet = min(quiet, (full + 1) * size - 1 + self._lag)
        return quiet

    def _most_needed(self, num_tokens: int) -> int:
        """Return the most free blocks that an allocation for a request of so many tokens can take."""
        return self._constant_need + sum([-(-num_tokens // size) for size in self._sizes])

    def _need(
        self,
        tables: list[GroupTable],
        needed: int,
        main: int,
        hit: CommonHit | None,
        computed: int,
        prefill_end: int,
        *,
        capped: bool = False,
    ) -> int:
        total = 0
        for index, group in enumerate(self.groups):
            hits = hit.tables[index] if hit is not None else []
            total += group.need(tables[index], needed, main, hits, computed, capped=capped, prefill_end=prefill_end)
        return total

    def register(self, request: Request, num_tokens: int) -> None:
        if num_tokens > request.quiet_until:
            self._register(request, num_tokens)

    def _register(self, request: Request, num_tokens: int) -> None:
        if not self.config.enable_prefix_caching:
            return
        self._extend_hashes(request)
        hittable = self._cacheable(num_tokens)
        boundaries: list[int] = []
        for group, table in zip(self.groups, request.tables, strict=True):
            tokens = self._cacheable_and_dropped(num_tokens, group) if group.drops and hittable else hittable
            if group.settled and tokens // group.size <= table.registered:
                continue
            if not boundaries:
                self.kept.clear()
                boundaries = replay_boundaries(request.num_prompt_tokens, self.plan.scheduler_block_size, self._drops)
            group.register(request, table, tokens, boundaries)

    def _cacheable(self, num_tokens: int) -> int:
        """Return the tokens whose blocks could be hit."""
        return max(0, num_tokens - self._lag) if len(self.groups) == 1 else self._aligned(num_tokens)

    def _cacheable_and_dropped(self, num_tokens: int, group: GroupRules) -> int:
        """Return the tokens whose blocks could be hit with one more, which is dropped."""
        settled = max(0, num_tokens - self._lag)
        return settled if len(self.groups) == 1 else min(settled, self._aligned(settled) + group.size)

    def _aligned(self, num_tokens: int) -> int:
        size = self.plan.scheduler_block_size
        return num_tokens if self.plan.partial_hits else num_tokens // size * size

    def free(self, request: Request) -> None:
        self._release_in_turn([table.blocks[::-1] for table in request.tables])
        request.tables = []
        request.quiet_until = 0

    def blocks_needed(self, num_tokens: int) -> int:
        return sum(group.blocks_needed(num_tokens) for group in self.groups)

    def cached_tokens(self, request: Request) -> int:
        """Return the tokens of a request's own blocks that are cached in all groups."""
        hashes, tokens = self.keys.hashes, self.keys.tokens
        return (
            min(
                max((tokens[block] for block in table.blocks if hashes[block] is not None), default=0)
                for table in request.tables
            )
            if request.tables
            else 0
        )

    # Operations of groups on the pool.

    def hold(self, blocks: list[int]) -> None:
        """Add a user to each of the blocks."""
        kept = list(filter(None, blocks))
        self._touch(kept, self.free_queue.among(kept))

    def num_waking(self, blocks: list[int]) -> int:
        """Return the number of these blocks that are not in use."""
        return len(self.free_queue.among(list(filter(None, blocks))))

    def take(self, count: int) -> list[int]:
        """Take so many blocks from the head of the free queue."""
        if count == 1 and self.limited:
            blocks = self.free_queue.take(1)
            if self.keys.hashes[blocks[0]] is not None:
                self._evict(blocks)
            return blocks
        return self._take(count) if count else []

    def release(self, blocks: list[int]) -> None:
        """Take a holder from each of the blocks; those that have none any more are free, in this order, cached ones last."""
        left = self._drop_users(blocks) if self.sharers else blocks
        if not self.config.enable_prefix_caching:
            self.free_queue.prepend(left[::-1])
            return
        holds = self.keys.hashes
        cached = [block for block in left if holds[block] is not None]
        if len(cached) < len(left):
            self.free_queue.prepend([block for block in reversed(left) if holds[block] is None])
        self.free_queue.append(cached)

    def _release_in_turn(self, tables: list[list[int]]) -> None:
        """Release each of the lists, which may have null blocks, in turn."""
        sharers, holds, caching = self.sharers, self.keys.hashes, self.config.enable_prefix_caching
        cached: list[int] = []
        rest: list[int] = []
        for blocks in tables:
            kept = [block for block in blocks if block]
            left = self._drop_users(kept) if sharers else kept
            if caching:
                cached += [block for block in left if holds[block] is not None]
                left = [block for block in left if holds[block] is None]
            left.reverse()
            rest += left
        if rest:
            self.free_queue.prepend(rest)
        self.free_queue.append(cached)

    def is_shared(self, block: int) -> bool:
        """Return whether a block has several users."""
        return block in self.sharers

    def copy_later(self, group: GroupOfPool, source: int, target: int) -> None:
        """Copy a block of a group before the step runs."""
        self._copies[group.index].append((source, target))

    def forget(self, block: int) -> None:
        """Remove a block's content, so that it cannot be hit."""
        self._evict([block])

    def split(self, key: BlockHash) -> tuple[BlockHash, int]:
        """Return the hash in a key of `keys`, and the group that it is of."""
        block_hash, tag = split_key(key)
        return block_hash, self._tag_order[tag]

    def removal(self, content: BlockHash) -> BlockRemoved:
        """Return the event of an evicted content."""
        return BlockRemoved(*self.split(content))

    def store_full(
        self, request: Request, group: GroupOfPool, table: GroupTable, first: int, stop: int, kept: list[int] | None
    ) -> None:
        """Register the full blocks at the places [first, stop) of a table, or only the `kept` ones."""
        keys, blocks, scale, size = self.keys, table.blocks, group.scale, group.size
        hashes = request.block_hashes
        if kept is None and group.keeps_all:
            stored = list(range(first, stop))
            new = hashes[first:stop]
            named = [BlockHash(each + group.tag) for each in new] if group.tag else new
            keys.put_run(blocks[first:stop], named, first * size, size)
            self.num_stored += stop - first
            if self.events is not None:
                self._report_full(request, group, first, stop, stored)
            return
        stored = []
        for index in range(first, stop) if kept is None else kept:
            block = blocks[index]
            if block == NULL_BLOCK:
                continue
            if keys.hashes[block] is not None:  # it was filled in part
                if keys.tokens[block] >= (index + 1) * size:
                    raise EngineError(
                        "vLLM 0.33 fails here: it registers a state that already belongs to a later token"
                    )
                self._evict([block])
            keys.put(block, BlockHash(hashes[(index + 1) * scale - 1] + group.tag), (index + 1) * size)
            stored.append(index)
        self.num_stored += len(stored)
        if self.events is not None:
            self._report_full(request, group, first, stop, stored)

    def _report_full(self, request: Request, group: GroupOfPool, first: int, stop: int, stored: list[int]) -> None:
        """Note that of the blocks at the places [first, stop) these were stored."""
        hashes, scale, size = request.block_hashes, group.scale, group.size
        parent = hashes[first * scale - 1] if first else None
        ids = None if request.prompt_ids is None else request.token_ids(first * size, stop * size)
        starts = [index * size for index in stored]
        new = tuple(hashes[(index + 1) * scale - 1] for index in stored)
        self._report_stored(request, group, new, parent, ids, starts, size)

    def store_part(
        self, request: Request, group: GroupOfPool, block: int, tokens: int, *, anew: bool = False
    ) -> BlockHash | None:
        """Register a block under its first `tokens` tokens of the request; return the key.

        `anew`: its old content is overwritten.
        """
        if block == NULL_BLOCK:
            return None
        keys, unit, hashes = self.keys, self.plan.hash_block_size, request.block_hashes
        at = tokens // unit
        if at > len(hashes):
            raise EngineError(
                "vLLM 0.33 fails here: it keeps a state with a hash over tokens that do not exist yet",
                hint="disable_lookahead_block_hashes",
            )
        key = BlockHash(hashes[at - 1] + group.tag)
        known = not anew and keys.has_key(block, key)
        if not known and keys.hashes[block] is not None and (anew or keys.tokens[block] < tokens):
            self._evict([block])
        keys.put(block, key, tokens)
        if not known:
            self.num_stored += 1
            if self.events is not None:
                ids = None if request.prompt_ids is None else request.token_ids(tokens - unit, tokens)
                parent = hashes[at - 2] if at > 1 else None
                self._report_stored(request, group, (hashes[at - 1],), parent, ids, [tokens - unit], unit)
        return key

    def _report_stored(
        self,
        request: Request,
        group: GroupOfPool,
        hashes: tuple[BlockHash, ...],
        parent: BlockHash | None,
        ids: Ids | None,
        starts: list[int],
        size: int,
    ) -> None:
        """Note that blocks were stored which begin at these tokens."""
        assert self.events is not None
        ahead = self.plan.num_hash_lookahead
        extras = None
        if request.images or request.prompt_embeds is not None or request.cache_salt or request.lora is not None:
            extras = tuple(extra_keys(request, start, start + size + ahead) for start in starts)
        behind = None
        if ahead and request.prompt_ids is not None:
            behind = tuple(request.token_ids(start + size, start + size + ahead) for start in starts)
        self.events.append(
            BlockStored(
                hashes, parent, ids, request.cache_salt, request.lora,
                group=group.index, block_size=size, extra_keys=extras, lookahead_ids=behind,
            )
        )  # fmt: skip

    def check_users(self, running: Iterable[Request]) -> None:
        refs = [0] * self.num_blocks
        for request in running:
            for group, table in zip(self.groups, request.tables, strict=True):
                group.check(table, request)
                for block in table.blocks:
                    refs[block] += block != NULL_BLOCK
        assert refs == self.refs
