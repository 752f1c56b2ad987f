"""A planner's result for a model's layers: groups of layers that share a block table, and the units of caching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GroupKind = Literal["full", "mla", "sliding", "chunked", "mamba"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KVGroup:
    """Layers that keep a request's K/V, or states, in the same blocks.

    `block_size` is in tokens (with context parallelism those of all ranks together), `page_bytes` of one layer in one block.
    `spec_id` is the number of the first group whose layers are the same: such groups are looked up together. `eagle` groups
    contain draft layers.
    """

    kind: GroupKind
    block_size: int
    layers: int = 1
    page_bytes: tuple[int, ...] = ()
    spec_id: int = 0
    eagle: bool = False
    window: int | None = None
    """Tokens that a query of a sliding layer sees, its own included."""
    extra_retained: int = 0
    """Tokens of a window that are kept beyond it, for several modules that predict tokens."""
    chunk: int | None = None
    """Tokens of a chunk of chunked local attention."""
    mamba_align: bool = True
    """True if states are kept at the ends of blocks, as with caching on; else there is one running state."""
    spec_blocks: int = 0
    """Blocks for the states of draft tokens."""
    ckpt_blocks: int = 0
    """Blocks for states that are exported from inside a prefill: 0 or 1."""
    ckpt_align: int | None = None
    """Tokens at whose multiples such states can be exported; None if they cannot."""
    ranks: int = 1
    """Accelerators that each keep a part of a block's tokens, by context parallelism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePlan:
    """The division of a model's KV cache: its groups in order, and the units in tokens.

    `scheduler_block_size` is the least common multiple of the groups' blocks. `hash_block_size` is their greatest common divisor,
    or the match unit that the user set. Hits end at multiples of `hit_alignment`. `bytes_per_block` is for the widest group.
    """

    groups: tuple[KVGroup, ...]
    bytes_per_block: int
    scheduler_block_size: int
    hash_block_size: int
    hit_alignment: int
    max_in_flight_tokens: int = 0
    """Tokens that steps in flight may compute, for which windows and chunks keep room."""
    num_spec_tokens: int = 0
    num_lookahead_tokens: int = 0
    """Slots that a step reserves for drafts."""
    num_prefill_lookahead: int = 0
    num_hash_lookahead: int = 0
    """Tokens after a unit that its hash covers, too."""
    eagle_drop: bool = False
    """True if the last block of a hit is dropped because draft layers cannot use it."""
    partial_hits: bool = False
    """True if hits may end inside of blocks."""

    @property
    def cache_block_size(self) -> int:
        """vLLM's `cache_config.block_size` after planning: the shortest block of a group, on one rank."""
        return min((group.block_size // group.ranks for group in self.groups), default=self.scheduler_block_size)
