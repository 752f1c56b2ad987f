"""How long the attention of a prompt's new tokens takes, behind cached ones or without."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.device.sequences import Sequences, attention_calls, attention_planner
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import AttentionShape, BenchLayer
from kvtool.measure.bench.this_machine import Ceilings
from kvtool.measure.bench.timing import Timing, layers_to_rotate, measure, release


@dataclass(frozen=True, slots=True)
class PrefillPoint:
    """`sequences` prompts of `new` tokens, each behind `cached` ones of its own."""

    new: int
    cached: int = 0
    sequences: int = 1

    def pairs(self) -> int:
        """Of a token and a token that it attends to."""
        return self.sequences * (self.new * self.cached + self.new * (self.new + 1) // 2)

    def flops(self, shape: AttentionShape) -> float:
        """Of the products with K and with V."""
        return 4.0 * shape.heads * shape.head_dim * self.pairs()

    def floor(self, shape: AttentionShape, ceilings: Ceilings) -> float:
        """Seconds: the larger of the arithmetic at the speed of a matrix product and the bytes at that of a copy."""
        tokens = self.sequences * (self.new + self.cached)
        num_bytes = tokens * shape.kv_bytes_per_token + self.sequences * self.new * shape.query_bytes
        return max(ceilings.compute_floor(self.flops(shape)), ceilings.memory_floor(num_bytes))


@dataclass(frozen=True, slots=True)
class PrefillResult:
    """Attention of one layer."""

    point: PrefillPoint
    floor: float
    flops: float
    timing: Timing
    layers: int

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.timing.seconds


def measure_prefill(
    point: PrefillPoint,
    shape: AttentionShape,
    ceilings: Ceilings,
    kernels: Kernels,
    device: torch.device,
    *,
    seconds: float = 0.15,
    most_layers: int = 8,
) -> PrefillResult:
    """Plans and times the point, on the caches of several layers in turn: few, as arithmetic, not bytes, is what takes the time."""
    length = point.new + point.cached
    sequences = Sequences.sharing([point.new] * point.sequences, [length] * point.sequences, 0, shape.block_size)
    host = sequences.batch()
    plan = attention_planner(kernels, shape, "auto", device).plan(host)
    size = sequences.num_blocks * shape.block_size * shape.kv_bytes_per_token
    count = layers_to_rotate(size, device, most=most_layers)
    layers = [BenchLayer.random(shape, sequences.num_blocks, sequences.num_queries, device) for _ in range(count)]
    timing = measure(attention_calls(kernels, plan, host.to(device), layers), device, seconds=seconds)
    del layers
    release(device)
    return PrefillResult(point, point.floor(shape, ceilings), point.flops(shape), timing, count)
