"""Memory of the blocks: each layer's paged keys and values, in their stored type."""

from __future__ import annotations

import torch

from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO, KVDtype, find_kv_dtype
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.kernels.kv_quantization import Scale

_INITIAL_TOKENS = 16_384
"""Tokens of room at the start; the memory doubles when it is full."""
_E4M3_CAPABILITY = (8, 9)  # CUDA devices before it have no e4m3; Triton refuses to compile for them


class KVStore:
    """K and V of every layer, each [num_blocks, Hkv, P, D], indexed by physical block id (0 is the null block).

    With latent attention there is one head, whose latent vectors are keys and values: `v` is `k`.

    They are kept in `dtype`, the model's, unless `cache_dtype` names another. int8 has scales f32[num_blocks, Hkv, P] besides; the
    scale of any other type is 1.0. Memory is taken as block ids come into use: it doubles, keeping what is stored, up to `limit`
    blocks (None: without end). Unwritten slots contain garbage; attention does not read them.
    """

    def __init__(
        self,
        config: ModelConfig,
        block_size: int,
        limit: int | None = None,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        cache_dtype: str = AUTO,
        by_head: bool = False,
    ) -> None:
        """Allocate nothing yet. With `by_head` memory is [Hkv, num_blocks, P, D], so that a head's consecutive blocks are one
        matrix."""
        self.limit = limit
        self._by_head = by_head
        initial = max(2, _INITIAL_TOKENS // block_size)
        self.num_blocks = initial if limit is None else min(limit, initial)
        scaled = False
        if cache_dtype != AUTO:
            kept = find_kv_dtype(cache_dtype)
            dtype, scaled = storage_dtype(kept, device), kept.scale_bytes > 0
        scales_shape = (self.num_blocks, config.cache_heads, block_size)
        layers = range(config.num_hidden_layers)

        dim = config.cache_dim

        def scale() -> Scale:
            return torch.empty(scales_shape, device=device, dtype=torch.float32) if scaled else 1.0

        def cache() -> torch.Tensor:
            blocks, heads, page = scales_shape
            if by_head:
                return torch.empty(heads, blocks, page, dim, device=device, dtype=dtype).transpose(0, 1)
            return torch.empty(*scales_shape, dim, device=device, dtype=dtype)

        self.k = [cache() for _ in layers]
        self.k_scale = [scale() for _ in layers]
        self.v, self.v_scale = self.k, self.k_scale
        if config.latent is None:
            self.v = [cache() for _ in layers]
            self.v_scale = [scale() for _ in layers]

    @property
    def _both(self) -> list[tuple[list[torch.Tensor], list[Scale]]]:
        """Return the tensors of keys and of values, each once."""
        keys = [(self.k, self.k_scale)]
        return keys if self.v is self.k else [*keys, (self.v, self.v_scale)]

    @property
    def bytes_per_block(self) -> int:
        """Bytes of all layers, with the scales."""
        parts = [part for caches, scales in self._both for part in (*caches, *scales)]
        return sum(part[0].numel() * part.element_size() for part in parts if isinstance(part, torch.Tensor))

    @property
    def vector_bytes(self) -> float:
        """A key or a value of one token and head, with its scale."""
        k, scale = self.k[0], self.k_scale[0]
        return k.shape[-1] * k.element_size() + (scale.element_size() if isinstance(scale, torch.Tensor) else 0)

    def reserve(self, num_blocks: int) -> None:
        """Make block ids below `num_blocks` usable; to call ahead of a timed run keeps copies out of its times."""
        if num_blocks <= self.num_blocks:
            return
        assert self.limit is None or num_blocks <= self.limit, f"{num_blocks} blocks in a pool of {self.limit}"
        size = self.num_blocks
        while size < num_blocks:
            size *= 2
        size = size if self.limit is None else min(size, self.limit)
        for layer in range(len(self.k)):  # one at a time: old and new memory overlap for one tensor only
            for caches, scales in self._both:
                caches[layer] = _grown(caches[layer], size, by_head=self._by_head)
                scale = scales[layer]
                scales[layer] = _grown(scale, size) if isinstance(scale, torch.Tensor) else scale
        self.num_blocks = size


def _grown(old: torch.Tensor, num_blocks: int, *, by_head: bool = False) -> torch.Tensor:
    heads, *rest = old.shape[1:]
    shape = (heads, num_blocks, *rest) if by_head else (num_blocks, heads, *rest)
    new = old.new_empty(shape)
    new = new.transpose(0, 1) if by_head else new
    new[: len(old)] = old
    return new


def storage_dtype(dtype: KVDtype, device: torch.device | str) -> torch.dtype:
    """Return the torch type; EngineError where the device cannot store it or cast to and from it."""
    device = torch.device(device)
    found = getattr(torch, dtype.torch_name, None)
    if not isinstance(found, torch.dtype):
        raise EngineError(f"this version of torch has no {dtype.name}", hint="choose another --kv-cache-dtype")
    if device.type == "cuda" and dtype.name == "fp8_e4m3":
        capability = torch.cuda.get_device_capability(device)
        if torch.version.hip is None and capability < _E4M3_CAPABILITY:
            raise EngineError(
                f"this GPU has no fp8_e4m3: its compute capability is {capability[0]}.{capability[1]}, not 8.9 or higher",
                hint="use fp8_e5m2 or int8, which are as small",
            )
    try:
        torch.ones(2, device=device).to(found).to(torch.float32)
    except (RuntimeError, TypeError) as error:
        raise EngineError(
            f"{device.type} cannot store the KV cache in {dtype.name}", hint="choose another --kv-cache-dtype"
        ) from error
    return found
