"""The memory behind the blocks: each layer's paged keys and values."""

from __future__ import annotations

import torch

from kvtool.engine.model_config import ModelConfig

_INITIAL_TOKENS = 16_384


class KVStore:
    """K and V of every layer, each [num_blocks, Hkv, P, D], indexed by physical block id (0 is the null block).

    Memory is taken as block ids come into use: it doubles, keeping what is stored, up to `limit` blocks (None: without end). Slots
    that nobody wrote hold garbage; attention does not read them.
    """

    def __init__(
        self,
        config: ModelConfig,
        block_size: int,
        limit: int | None = None,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.limit = limit
        initial = max(2, _INITIAL_TOKENS // block_size)
        self.num_blocks = initial if limit is None else min(limit, initial)
        shape = (self.num_blocks, config.num_key_value_heads, block_size, config.head_dim)
        layers = range(config.num_hidden_layers)
        self.k = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.v = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]

    def reserve(self, num_blocks: int) -> None:
        """Make block ids below `num_blocks` usable; to call ahead of a timed run keeps copies out of its times."""
        if num_blocks <= self.num_blocks:
            return
        assert self.limit is None or num_blocks <= self.limit, f"{num_blocks} blocks in a pool of {self.limit}"
        size = self.num_blocks
        while size < num_blocks:
            size *= 2
        size = size if self.limit is None else min(size, self.limit)
        for caches in (self.k, self.v):
            for layer, old in enumerate(caches):  # one at a time: old and new memory overlap for one tensor only
                caches[layer] = old.new_empty((size, *old.shape[1:]))
                caches[layer][: self.num_blocks] = old
        self.num_blocks = size
