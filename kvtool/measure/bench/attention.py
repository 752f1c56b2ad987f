"""One layer's attention: its shape, and caches and queries of random numbers."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from kvtool.engine.config import EngineConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled
from kvtool.kernels.kv_quantization import MAXIMA, Scale
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.cases import Mode, StepCase
from kvtool.measure.bench.this_machine import Ceilings
from kvtool.measure.bench.timing import Timing, host_seconds, layers_to_rotate, measure, release

if TYPE_CHECKING:
    from kvtool.measure.bench.bench_result import StepTime  # pydantic, which machines for kernels alone need not have

SHORT = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    torch.int8: "int8",
}
"""How a type is named in tables."""

_FILLED_AT_ONCE = 1 << 28  # numbers drawn at a time: 1 GiB in fp32 beside the cache itself


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """One layer's attention; the default is Llama-3.1-8B's."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    block_size: int = EngineConfig.block_size
    dtype: torch.dtype = torch.bfloat16
    cache_dtype: torch.dtype | None = None
    """None: of `dtype`. int8 has a scale for each token and head."""

    @property
    def kept(self) -> torch.dtype:
        return self.cache_dtype or self.dtype

    @property
    def vector_bytes(self) -> int:
        """Return a key or a value of one token and head, with its scale."""
        return self.head_dim * self.kept.itemsize + (4 if self.kept == torch.int8 else 0)

    @property
    def kv_bytes_per_token(self) -> int:
        """Return the bytes of K and V of one token."""
        return 2 * self.kv_heads * self.vector_bytes

    @property
    def query_bytes(self) -> int:
        """Return a token's query read and its output written."""
        return 2 * self.heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class BenchLayer:
    """One layer's cache, and queries [T, Hq, D]."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    k_scale: Scale = 1.0
    v_scale: Scale = 1.0

    @classmethod
    def random(cls, shape: AttentionShape, num_blocks: int, num_queries: int, device: torch.device) -> BenchLayer:
        caches = [
            random_cache((num_blocks, shape.kv_heads, shape.block_size, shape.head_dim), shape.kept, device)
            for _ in range(2)
        ]
        scales: list[Scale] = [1.0, 1.0]
        if shape.kept == torch.int8:
            scales = [torch.rand(caches[0].shape[:3], device=device) / 64 for _ in range(2)]
        q = torch.randn(num_queries, shape.heads, shape.head_dim, device=device).to(shape.dtype)
        return cls(q, *caches, *scales)


def random_cache(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return normal numbers, or all codes of int8; a few gigabytes at a time, so that the cache may be as large as the memory."""
    cache = torch.empty(shape, dtype=dtype, device=device)
    flat = cache.view(-1)
    for start in range(0, len(flat), _FILLED_AT_ONCE):
        piece = flat[start : start + _FILLED_AT_ONCE]
        if dtype == torch.int8:
            piece.random_(-127, 128)
        elif dtype in MAXIMA:
            piece.copy_(torch.randn(piece.shape, device=device))
        else:
            piece.normal_()
    return cache


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
    """Time the store of new keys and values into blocks anywhere in the pool; the slot mapping is read as well."""
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
    """Return layers with room for `tokens` in each, so many that none of the `num_bytes` that one moves is still in the L2
    cache."""
    release(device)
    blocks = 1 + -(-tokens // shape.block_size)
    return [BenchLayer.random(shape, blocks, 1, device) for _ in range(layers_to_rotate(num_bytes, device, most=most))]


def random_slots(shape: AttentionShape, tokens: int, device: torch.device) -> torch.Tensor:
    """Return int64[tokens]: block after block in any order, and a block's slots in theirs, as prompts fill them."""
    blocks = 1 + torch.randperm(-(-tokens // shape.block_size), device=device)
    slots = blocks[:, None] * shape.block_size + torch.arange(shape.block_size, device=device)
    return slots.flatten()[:tokens]


def build_step(case: StepCase, vocab_size: int, block_size: int) -> EngineStep:
    """Return requests of random tokens whose blocks lie anywhere in as small a pool as holds them."""
    rng = np.random.default_rng(0)
    pool = iter((1 + rng.permutation(case.blocks(block_size))).tolist())
    common = [next(pool) for _ in range(case.shared // block_size)]
    items = []
    for index, (before, new) in enumerate(case.work):
        length = before + new
        ids = rng.integers(0, vocab_size, length, dtype=np.int32)
        request = Request(f"{case.kind} {index}", length, prompt_ids=ids)
        own = -(-length // block_size) - len(common)
        request.block_ids = [*common, *(next(pool) for _ in range(own))]
        items.append(Scheduled(request, before, new))
    return EngineStep(0, tuple(items))


@dataclass(slots=True)
class Timed:
    """A case, its step and how long it took each time."""

    case: StepCase
    step: EngineStep
    times: list[float] = field(default_factory=list)

    def result(self) -> StepTime:
        """Return the lower quartile as the step's time: whatever else the machine does only ever adds to it."""
        from kvtool.measure.bench.bench_result import StepTime

        times = sorted(self.times)
        return StepTime(self.case, times[len(times) // 4], statistics.median(times), len(times))


class StepTimer:
    """Runs the steps of cases through a runner for each way of attending, whose caches are full of random numbers."""

    def __init__(self, model: Decoder, cases: list[StepCase], block_size: int, kv_cache_dtype: str) -> None:
        self._model = model
        self._block_size = block_size
        modes: set[Mode] = {case.mode for case in cases}
        self._runners: dict[Mode, ModelRunner] = {}
        for mode in sorted(modes):
            blocks = 1 + max(case.blocks(block_size) for case in cases if case.mode == mode)
            runner = ModelRunner(model, block_size, blocks, kv_cache_dtype=kv_cache_dtype, decode_attention=mode)
            runner.kv.reserve(blocks)
            fill_randomly(runner.kv, model.device)
            self._runners[mode] = runner

    def build(self, case: StepCase) -> Timed:
        """Return the case with its step."""
        return Timed(case, build_step(case, self._model.config.vocab_size, self._block_size))

    def run(self, timed: Timed) -> float:
        """Return seconds until its tokens are known on the host."""
        runner = self._runners[timed.case.mode]
        return host_seconds(lambda: runner.run(timed.step), self._model.device)


def fill_randomly(kv: KVStore, device: torch.device) -> None:
    """Fill with numbers as a model leaves them: what is in memory by chance may be denormal, which takes CPUs far longer."""
    for layer in range(len(kv.k)):
        for cache, scale in ((kv.k[layer], kv.k_scale[layer]), (kv.v[layer], kv.v_scale[layer])):
            cache.copy_(random_cache(tuple(cache.shape), cache.dtype, device))
            if isinstance(scale, torch.Tensor):
                scale.fill_(1 / 64)
