"""Blocks for caches in the memory that a device has free."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvtool.engine.config import EngineConfig
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.weights import free_memory
from kvtool.engine.prediction.sizing import bytes_per_block, estimated_activations

_SHARE = 0.9  # of the free memory of a device that caches may take
_MOST_BLOCKS = 1 << 18
"""Of a cache: small models leave room for more than a scheduler should have to keep lists of."""


class DeviceMemory:
    """Memory for caches of the same engine, all of them with blocks of the largest of some KV cache dtypes."""

    def __init__(self, model: Decoder, engine: EngineConfig, kv_cache_dtypes: Sequence[str]) -> None:
        geometry = Geometry.of(model.config)
        own = str(model.dtype).removeprefix("torch.")
        self._device = model.device
        config = model.config
        both = max(
            bytes_per_block(
                config.num_hidden_layers,
                config.cache_heads,
                config.cache_dim,
                engine.block_size,
                find_kv_dtype(name, own),
            )
            for name in kv_cache_dtypes
        )
        self.block_bytes = both if config.latent is None else both // 2  # latent vectors are keys and values
        estimate = estimated_activations(
            geometry, max_num_batched_tokens=engine.max_num_batched_tokens, max_num_seqs=engine.max_num_seqs
        )
        self._activations = estimate * model.dtype.itemsize // 2  # the estimate is for types of two bytes

    @property
    def bounded(self) -> bool:
        """Return whether caches have a limit and are made that large at once: a GPU has no memory but its own, and growing
        copies."""
        return self._device.type == "cuda"

    def blocks(self, caches: int) -> int:
        """Return the blocks for each of so many caches, of the memory that is free now; with the null block, and at least one
        beside it."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()  # what the allocator keeps does not count as free
        left = _SHARE * free_memory(self._device) - self._activations
        return min(max(int(left // (caches * self.block_bytes)), 2), _MOST_BLOCKS)
