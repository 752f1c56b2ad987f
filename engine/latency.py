"""How long a step would take on an accelerator: a roofline over the work that was scheduled.

A step takes ``max(FLOPs / usable FLOP/s, bytes / usable B/s) + overhead``. FLOPs are 2 for each weight of the layers and token,
2 for each weight of the output head and sampled token, and ``4 · layers · heads · head_dim`` for each pair of a token and a token
that it attends to (the products with K and with V). Bytes are the weights once, and the keys and values of every token attended to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvtool.engine.errors import EngineError
from kvtool.engine.geometry import Geometry

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Peak figures of the data sheet: dense bf16 FLOP/s, memory B/s, memory bytes."""

    name: str
    flops: float
    bandwidth: float
    memory: int
    source: str


ACCELERATORS = {
    accelerator.name: accelerator
    for accelerator in (
        Accelerator("a100-80g", 312e12, 2.039e12, 80 * _GIB, "NVIDIA A100 80GB SXM data sheet"),
        Accelerator("h100", 989.4e12, 3.35e12, 80 * _GIB, "NVIDIA H100 SXM data sheet (dense)"),
        Accelerator("h200", 989.4e12, 4.8e12, 141 * 10**9, "NVIDIA H200 SXM data sheet (dense)"),
        Accelerator("l4", 121e12, 0.3e12, 24 * _GIB, "NVIDIA L4 data sheet (dense)"),
        Accelerator("l40s", 362e12, 0.864e12, 48 * _GIB, "NVIDIA L40S data sheet (dense)"),
    )
}
DEFAULT_ACCELERATOR = "h100"


def find_accelerator(name: str) -> Accelerator:
    """An accelerator by name, case ignored."""
    try:
        return ACCELERATORS[name.lower()]
    except KeyError:
        raise EngineError(f"unknown accelerator `{name}`", hint=f"one of {', '.join(ACCELERATORS)}") from None


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """The roofline of a model on an accelerator.

    The efficiencies are assumptions, not measurements: large bf16 matrix products commonly reach some 60 % of the data sheet's
    FLOP/s, streaming reads some 80 % of its bandwidth; the overhead is for scheduling, launches and sampling.
    """

    geometry: Geometry
    accelerator: Accelerator
    dtype_bytes: int = 2
    compute_efficiency: float = 0.6
    bandwidth_efficiency: float = 0.8
    step_overhead: float = 2e-3

    def step_seconds(self, work: Iterable[tuple[int, int]]) -> float:
        """Seconds of one step. `work` has, for each request, the tokens computed before and those computed now."""
        geometry = self.geometry
        tokens = rows = pairs = context = 0
        for before, new in work:
            tokens += new
            rows += 1
            pairs += new * before + new * (new + 1) // 2
            context += before + new
        if not tokens:
            return 0.0
        head = geometry.vocab_size * geometry.hidden_size
        layers = geometry.num_layers * geometry.layer_parameters
        flops = 2.0 * (layers * tokens + head * rows)
        flops += 4.0 * geometry.num_layers * geometry.num_heads * geometry.head_dim * pairs
        moved = (layers + head) * self.dtype_bytes + context * geometry.kv_bytes_per_token(self.dtype_bytes)
        compute = flops / (self.accelerator.flops * self.compute_efficiency)
        memory = moved / (self.accelerator.bandwidth * self.bandwidth_efficiency)
        return max(compute, memory) + self.step_overhead

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int, max_num_batched_tokens: int) -> float:
        """TTFT of a request that runs alone: its uncached tokens, in chunks of the step's budget."""
        seconds = 0.0
        at = cached_tokens
        while at < prompt_tokens:
            new = min(max_num_batched_tokens, prompt_tokens - at)
            seconds += self.step_seconds([(at, new)])
            at += new
        return seconds


def blocks_that_fit(
    geometry: Geometry, memory_bytes: float, block_size: int, *, utilization: float = 0.92, dtype_bytes: int = 2
) -> int:
    """KV blocks beside the weights in `memory_bytes` of an accelerator, the null block included.

    A first estimate: vLLM also sets activations and graphs aside, which only a run on the device can measure.
    """
    available = memory_bytes * utilization - geometry.parameters * dtype_bytes
    blocks = int(available // (geometry.kv_bytes_per_token(dtype_bytes) * block_size))
    if blocks < 2:
        raise EngineError(
            f"{memory_bytes / _GIB:.1f} GiB hold no KV cache beside the {geometry.parameters * dtype_bytes / _GIB:.1f} GiB "
            f"of {geometry.name}'s weights",
            hint="raise --gpu-memory or choose a smaller --model",
        )
    return blocks
