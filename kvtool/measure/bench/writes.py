"""How long the store of keys and values takes, beside what its bytes take at least."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import SHORT, AttentionShape, BenchLayer
from kvtool.measure.bench.ceilings import Ceilings
from kvtool.measure.bench.timing import Timing, layers_to_rotate, measure, release


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A kernel on `tokens` tokens, and what else does the same."""

    kernel: str
    tokens: int
    num_bytes: int
    """Read and written, each once."""
    floor: float
    """Seconds, at the speed of a copy."""
    timing: Timing
    others: dict[str, Timing]


def measure_store(
    kernels: Kernels,
    shape: AttentionShape,
    tokens: int,
    ceilings: Ceilings,
    device: torch.device,
    *,
    seconds: float = 0.05,
    most_layers: int = 32,
) -> WriteResult:
    """New keys and values into blocks anywhere in the pool; the slot mapping is read as well."""
    read = 2 * tokens * shape.kv_heads * shape.head_dim * shape.dtype.itemsize
    num_bytes = read + tokens * (shape.kv_bytes_per_token + 8)
    layers = rotated_layers(shape, tokens, num_bytes, device, most_layers)
    slots = random_slots(shape, tokens, device)
    kv = [
        torch.randn(tokens, 2 * shape.kv_heads, shape.head_dim, device=device).to(shape.dtype).chunk(2, dim=1)
        for _ in layers
    ]
    calls = [
        partial(kernels.store_kv, k, v, layer.k_cache, layer.v_cache, slots, layer.k_scale, layer.v_scale)
        for layer, (k, v) in zip(layers, kv, strict=True)
    ]
    timing = measure(calls, device, seconds=seconds)
    name = f"store_kv {SHORT[shape.dtype]} to {SHORT[shape.kept]}"
    return WriteResult(name, tokens, num_bytes, ceilings.memory_floor(num_bytes), timing, {})


def rotated_layers(
    shape: AttentionShape, tokens: int, num_bytes: int, device: torch.device, most: int
) -> list[BenchLayer]:
    """With room for `tokens` in each, so many that none of the `num_bytes` that one moves is still in the L2 cache."""
    release(device)
    blocks = 1 + -(-tokens // shape.block_size)
    return [BenchLayer.random(shape, blocks, 1, device) for _ in range(layers_to_rotate(num_bytes, device, most=most))]


def random_slots(shape: AttentionShape, tokens: int, device: torch.device) -> torch.Tensor:
    """int64[tokens]: block after block in any order, and a block's slots in theirs, as prompts fill them."""
    blocks = 1 + torch.randperm(-(-tokens // shape.block_size), device=device)
    slots = blocks[:, None] * shape.block_size + torch.arange(shape.block_size, device=device)
    return slots.flatten()[:tokens]
