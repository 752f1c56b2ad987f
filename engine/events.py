"""What happens to cached blocks, in the order it happens; the field names are those of vLLM's KV events."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.hashing import BlockHash


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Blocks became full and can be hit from now on; `parent_block_hash` is that of the block before the first one."""

    block_hashes: tuple[BlockHash, ...]
    parent_block_hash: BlockHash | None


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """One physical copy of a cached block was evicted."""

    block_hash: BlockHash


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """The prefix cache was reset."""


Event = BlockStored | BlockRemoved | AllBlocksCleared
