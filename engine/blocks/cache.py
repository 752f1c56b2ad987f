"""The block manager of one group: contents, users and the order of eviction."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.engine.blocks.block_pool import BlockPool
from kvtool.engine.blocks.cached_blocks import HashedBlocks, NumberedBlocks
from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.blocks.extra_keys import extra_keys
from kvtool.engine.blocks.free_queue import FreeQueue
from kvtool.engine.blocks.hashing import block_hasher
from kvtool.engine.blocks.unlimited_free_set import FreeSet
from kvtool.engine.config import EngineConfig
from kvtool.engine.events import BlockStored
from kvtool.engine.request import Request

_NO_HITS: list[int] = []


class BlockManager(BlockPool):
    """Paged KV blocks with vLLM V1's automatic prefix caching, for a model whose layers all see everything before them.

    `groups/grouped_manager.py` implements any number of groups of layers; this is the special case of one full group.
    """

    def __init__(
        self, config: EngineConfig, *, record_events: bool = False, numbers: ChainNumbers | None = None
    ) -> None:
        """Create the manager. `numbers` made the `prompt_numbers` of requests; then no events are recorded, because events need
        hashes."""
        assert numbers is None or not record_events
        num_blocks = config.num_blocks if config.num_blocks is not None else 1
        hasher = block_hasher(config.hash_algo, config.hash_seed)
        contents = (
            HashedBlocks(num_blocks, config.block_size, hasher)
            if numbers is None
            else NumberedBlocks(num_blocks, config.block_size, numbers, hasher)
        )
        unordered = numbers is not None and config.num_blocks is None
        free = FreeSet() if unordered else FreeQueue(num_blocks)
        super().__init__(config, contents, free, record_events=record_events)
        self._found = _NO_HITS

    def match(self, request: Request) -> list[int]:
        """Return physical ids of the longest cached prefix of a request of which nothing is computed.

        At most ``(num_tokens - 1) // block_size`` blocks: the last token is always computed, as its logits are needed.
        """
        if not self.config.enable_prefix_caching or request.skip_reading_cache:
            return []
        self.contents.extend(request)
        return self.contents.find(request, (request.num_tokens - 1) // self.block_size)

    def look_up(self, request: Request) -> int:
        self._found = self.match(request)
        return len(self._found) * self.block_size

    def admit(self, request: Request, num_new: int, *, reserve: int = 0, whole: bool = False) -> bool:
        return self.allocate(request, num_new, self._found, reserve=reserve, whole=whole)

    def blocks_needed(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _own_blocks(self, request: Request, num_tokens: int, hits: list[int]) -> int:
        slots = min(num_tokens, self.config.max_model_len)
        return max(-(-slots // self.block_size) - len(request.block_ids) - len(hits), 0)

    def allocate(
        self, request: Request, num_new: int, hits: list[int] = _NO_HITS, *, reserve: int = 0, whole: bool = False
    ) -> bool:
        """Give the request blocks for `num_new` tokens after those computed and hit; False (and no change) if too few are free.

        `reserve` and `whole` are those of `admit`.
        """
        block_size = self.block_size
        computed = request.num_computed_tokens + len(hits) * block_size + num_new
        if computed > len(request.block_ids) * block_size:  # most decode steps find room in the last block
            waking = self.free_queue.among(hits)
            own = self._own_blocks(request, computed, hits)
            if self.limited:
                free = self.free_queue.size - len(waking) - reserve
                if own > free or (whole and self._own_blocks(request, request.num_tokens, hits) > free):
                    return False
            self._touch(hits, waking)
            request.block_ids += hits
            request.num_registered_blocks += len(hits)
            request.block_ids += self._take(own)
            used = self.num_blocks - 1 - self.free_queue.size
            if used > self.peak_used:
                self.peak_used = used
        if computed // block_size > request.num_registered_blocks:
            self.register(request, min(computed, request.num_tokens))
        return True

    def register(self, request: Request, num_tokens: int) -> None:
        """Make the blocks that the first `num_tokens` tokens fill hittable.

        Scheduled tokens are registered with their allocation, before they are computed; those that are known only later, then.
        """
        full = num_tokens // self.block_size
        if not self.config.enable_prefix_caching or full <= request.num_registered_blocks:
            return
        self.contents.extend(request)
        first = request.num_registered_blocks
        self.contents.enter(request, first, full)
        request.num_registered_blocks = full
        self.num_stored += full - first
        if self.events is not None:
            parent = request.block_hashes[first - 1] if first else None
            tokens = None
            if request.prompt_ids is not None:
                tokens = request.token_ids(first * self.block_size, full * self.block_size)
            new = tuple(request.block_hashes[first:full])
            extras = None
            if request.images or request.prompt_embeds is not None:
                starts = range(first * self.block_size, full * self.block_size, self.block_size)
                extras = tuple(extra_keys(request, start, start + self.block_size) for start in starts)
            self.events.append(BlockStored(new, parent, tokens, request.cache_salt, request.lora, extra_keys=extras))

    def free(self, request: Request) -> None:
        full = request.num_registered_blocks
        cached, rest = request.block_ids[:full], request.block_ids[full:]
        cached = self._drop_users(cached)
        cached.reverse()
        self.free_queue.append(cached)
        self.free_queue.prepend(rest)
        request.block_ids.clear()
        request.num_registered_blocks = 0

    def check_users(self, running: Iterable[Request]) -> None:
        refs = [0] * self.num_blocks
        for request in running:
            assert len(request.block_ids) * self.block_size >= request.num_computed_tokens
            for block in request.block_ids:
                refs[block] += 1
        assert refs == self.refs
