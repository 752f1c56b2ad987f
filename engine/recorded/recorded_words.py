"""Write a run in the format of recorded cases: one form for a single group of layers, one for several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.block_pool import BlockPool
from kvtool.engine.blocks.extra_keys import untagged
from kvtool.engine.blocks.make_cache import is_plain, make_cache
from kvtool.engine.config import EngineConfig
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from kvtool.engine.groups.grouped_manager import GroupedManager
from kvtool.engine.groups.keyed_blocks import KeyedBlocks
from kvtool.engine.request import Request, Status
from kvtool.engine.step import EngineStep

Labels = Mapping[BlockHash, str]


class NotingManager(GroupedManager):
    """Notes how far the requests are cached that give their blocks back."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config, record_events=True)
        self.cached_at_end: dict[str, int] = {}

    def free(self, request: Request) -> None:
        self.cached_at_end[request.id] = self.cached_tokens(request)
        super().free(request)


def recorded_cache(config: EngineConfig) -> BlockPool:
    """Return the block manager of a replay."""
    grouped = config.plan is not None and not is_plain(config.plan)
    return NotingManager(config) if grouped else make_cache(config, record_events=True)


class PlainWords:
    """The form for one group: tables are lists of ids, contents are labels."""

    def __init__(self, cache: BlockPool, labels: Labels) -> None:
        self.cache = cache
        self.labels = labels
        self.late = False
        """True if a request's entry is final only when its tokens are taken in."""

    def table(self, request: Request) -> list[Any]:
        return list(request.block_ids)

    def event(self, step: int, event: Event) -> list[Any]:
        match event:
            case BlockStored(hashes, parent):
                above = self.labels[parent] if parent is not None else None
                return ["S", step, [self.labels[block] for block in hashes], above]
            case BlockRemoved(block):
                return ["R", step, self.labels[block]]
            case AllBlocksCleared():
                return ["C", step]

    def free_queue(self) -> list[Any]:
        hashes = self.cache.hashes
        return [
            [block, None if (block_hash := hashes[block]) is None else self.labels[block_hash]]
            for block in self.cache.free_queue
        ]

    def of_step(self, step: EngineStep) -> dict[str, Any]:
        """Return a step's entry, without its computed tokens."""
        del step
        return {}

    def of_request(self, request: Request) -> dict[str, Any]:
        """Return a request's entry when its first token is there."""
        del request
        return {}


class GroupedWords(PlainWords):
    """The form for several groups: a table and a label for each, and the fields that only they have."""

    def __init__(self, cache: BlockPool, labels: Labels) -> None:
        super().__init__(cache, labels)
        self.manager = cache if isinstance(cache, NotingManager) else None
        """None where a plan is that of one plain group."""
        self.late = self.manager is not None

    def table(self, request: Request) -> list[Any]:
        if self.manager is None:
            return [list(request.block_ids)]
        return [list(table.blocks) for table in request.tables]

    def event(self, step: int, event: Event) -> list[Any]:
        match event:
            case BlockStored(hashes, parent):
                above = self.labels[parent] if parent is not None else None
                size = event.block_size or self.cache.block_size
                stored = ["S", step, event.group, [self.labels[block] for block in hashes], above, size]
                keys = self._keys(event)
                return [*stored, keys] if any(keys) else stored
            case BlockRemoved(block):
                return ["R", step, event.group, self.labels[block]]
            case AllBlocksCleared():
                return ["C", step]

    def _keys(self, event: BlockStored) -> list[list[Any] | None]:
        if event.extra_keys is not None:
            return [[untagged(key) for key in keys] or None for keys in event.extra_keys]
        every = [] if event.lora is None else [event.lora.name]
        keys = [list(every) or None for _ in event.block_hashes]
        if event.cache_salt and event.parent_block_hash is None and keys:
            keys[0] = [*every, event.cache_salt]
        return keys

    def free_queue(self) -> list[Any]:
        return [[block, self._contents(block)] for block in self.cache.free_queue]

    def _contents(self, block: int) -> list[Any] | None:
        block_hash = self.cache.hashes[block]
        if block_hash is None:
            return None
        if self.manager is None:
            return [[0, self.labels[block_hash]]]
        contents = self.manager.keys
        assert isinstance(contents, KeyedBlocks)
        named = [self.manager.split(key) for key in (block_hash, *contents.more.get(block, ()))]
        return [[group, self.labels[each]] for each, group in named]

    def of_step(self, step: EngineStep) -> dict[str, Any]:
        drafts = {item.request.id: item.num_drafts for item in step.scheduled if item.num_drafts}
        copies = [list(pair) for pair in step.copies]
        return {**({"drafts": drafts} if drafts else {}), **({"copies": copies} if copies else {})}

    def of_request(self, request: Request) -> dict[str, Any]:
        if self.manager is None:
            cached = request.num_registered_blocks * self.cache.block_size
        elif request.status is Status.FINISHED:
            cached = self.manager.cached_at_end[request.id]
        else:
            cached = self.manager.cached_tokens(request)
        new = min(cached, request.num_prompt_tokens) - request.num_cached_tokens
        return {"num_cache_creation_tokens": max(new, 0)}
