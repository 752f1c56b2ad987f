"""How long a decode step's attention takes: flat, and with the shared beginning of its sequences read once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.device.sequences import MODES, Sequences, attention_calls, attention_planner
from kvtool.engine.config import DecodeMode
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import AttentionShape, BenchLayer
from kvtool.measure.bench.this_machine import Ceilings
from kvtool.measure.bench.timing import Timing, free_memory, layers_to_rotate, measure, release

_KEPT_FREE = 0.12  # of the free memory


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """`batch` sequences of `context` tokens, the first `shared_tokens` of which, a multiple of the block size, are the same."""

    batch: int
    context: int
    shared_tokens: int = 0

    @classmethod
    def sharing(cls, batch: int, context: int, share: float, block_size: int = 16) -> DecodePoint:
        """A share of the context, rounded down to whole blocks."""
        return cls(batch, context, int(context * share) // block_size * block_size)

    @property
    def unique_tokens(self) -> int:
        """What has to be read at least."""
        return self.shared_tokens + self.batch * (self.context - self.shared_tokens)


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """Attention of one layer, one query for each sequence."""

    point: DecodePoint
    floor: float
    """Seconds that reading each token's K and V once, and queries and outputs, takes at the speed of a copy."""
    timings: dict[str, Timing]
    """By mode."""
    tokens_read: dict[str, int]
    """By mode: tokens whose K and V the plan's work items read, so many times each."""
    plan_seconds: dict[str, float]
    """By mode: the host's time to plan the step, which all its layers share."""
    layers: int
    """Whose caches were read in turn."""

    @property
    def speedup(self) -> float | None:
        """Time of flat over that of prefix-aware."""
        return self.ratio("flat", "prefix-aware")

    @property
    def auto_over_best(self) -> float | None:
        """Time of auto over the better of the other two: 1.0 where it always chooses right."""
        best = min((t.seconds for mode, t in self.timings.items() if mode != "auto"), default=None)
        auto = self.timings.get("auto")
        return auto.seconds / best if auto is not None and best else None

    def ratio(self, mode: str, to: str) -> float | None:
        a, b = self.timings.get(mode), self.timings.get(to)
        return a.seconds / b.seconds if a is not None and b is not None else None


def decode_floor(point: DecodePoint, shape: AttentionShape, ceilings: Ceilings) -> float:
    """Seconds; as in `DecodeResult.floor`."""
    return ceilings.memory_floor(point.unique_tokens * shape.kv_bytes_per_token + point.batch * shape.query_bytes)


def decode_memory(point: DecodePoint, shape: AttentionShape) -> int:
    """Bytes of one layer's cache."""
    return (point.unique_tokens + 2 * point.batch * shape.block_size) * shape.kv_bytes_per_token


def measure_decode(
    point: DecodePoint,
    shape: AttentionShape,
    ceilings: Ceilings,
    kernels: Kernels,
    device: torch.device,
    *,
    modes: Sequence[DecodeMode] = MODES,
    seconds: float = 0.1,
    most_layers: int = 32,
) -> DecodeResult:
    """Plans and times the point; its caches take up to most of the free memory, which is given back."""
    sequences = Sequences.sharing(
        [1] * point.batch, [point.context] * point.batch, point.shared_tokens, shape.block_size
    )
    memory = int(free_memory(device) * (1 - _KEPT_FREE))
    count = layers_to_rotate(decode_memory(point, shape), device, memory, most_layers)
    layers = [BenchLayer.random(shape, sequences.num_blocks, point.batch, device) for _ in range(count)]
    host = sequences.batch()
    batch = host.to(device)
    timings: dict[str, Timing] = {}
    tokens_read: dict[str, int] = {}
    plan_seconds: dict[str, float] = {}
    for mode in modes:
        planner = attention_planner(kernels, shape, mode, device)
        began = time.perf_counter()
        plan = planner.plan(host)
        plan_seconds[mode] = time.perf_counter() - began
        tokens_read[mode] = sum(int(phase.items[:, 3].sum()) for phase in plan.phases)
        timings[mode] = measure(attention_calls(kernels, plan, batch, layers), device, seconds=seconds)
    del layers
    release(device)
    return DecodeResult(point, decode_floor(point, shape, ceilings), timings, tokens_read, plan_seconds, count)
