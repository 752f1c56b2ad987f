"""Events of cached blocks in order; the field names are those of vLLM's KV events."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kvtool.engine.blocks.block_keys import BlockHash, ExtraKeys, Lora


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Blocks became full and can be hit from now on; `parent_block_hash` is the hash of the block before the first one.

    The hashes identify the content, so comparisons ignore the rest: the tokens of the blocks, int32[blocks * block_size] (None for
    a trace of hashes), and the other inputs of the hashes. With several groups of layers, blocks may be left out, even all of
    them; then `extra_keys` has an entry for each listed block.
    """

    block_hashes: tuple[BlockHash, ...]
    parent_block_hash: BlockHash | None
    token_ids: npt.NDArray[np.int32] | None = field(default=None, compare=False)
    cache_salt: str | None = field(default=None, compare=False)
    lora: Lora | None = field(default=None, compare=False)
    group: int = 0
    block_size: int | None = field(default=None, compare=False)
    """Tokens in each of the blocks, where it is not the configuration's."""
    extra_keys: tuple[ExtraKeys, ...] | None = field(default=None, compare=False)
    """All extra keys by block, if the hashes have others than salt and adapter, which have no gaps."""
    lookahead_ids: tuple[npt.NDArray[np.int32], ...] | None = field(default=None, compare=False)
    """The tokens after each block that its hash covers."""


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """One physical copy of a cached block was evicted."""

    block_hash: BlockHash
    group: int = 0


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """The prefix cache was reset."""


Event = BlockStored | BlockRemoved | AllBlocksCleared
