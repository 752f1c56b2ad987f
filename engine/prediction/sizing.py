"""Count the KV blocks that fit on an accelerator beside a model, as vLLM does.

    available = ceil(memory · utilization) - weights - activations - graphs
    num_blocks = ⌊available / bytes of a block⌋

all of them per accelerator: with tensor parallelism each has its part of the weights and of the K/V heads. `available_memory`,
`bytes_per_block` and `Pool` are exact. vLLM measures the memory of a forward pass and of the CUDA graphs on the device;
`size_cache` estimates both unless they are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from kvtool.engine.config import DEFAULT_UTILIZATION, EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.kv_dtype import AUTO, KVDtype, find_kv_dtype
from kvtool.engine.model.configs.geometry import Geometry

_GIB = 1 << 30
_WEIGHT_BYTES = 2  # bf16 or fp16: servers convert even fp32 checkpoints to one of them

GRAPH_BYTES = _GIB // 2
"""Estimate of captured CUDA graphs. vLLM's users report 0.1 to 0.7 GiB per accelerator, more for more captured batch sizes."""

DEVICE_BYTES = 160 << 20
"""Estimate of memory outside of torch: the libraries' and the communication's own."""

LOGIT_BYTES = 32
"""Estimate of vLLM's sampling warm-up, for each logit: the logit itself, in float32 as well, sorted with 64-bit indices, and the
probabilities with their sums and masks. Together with DEVICE_BYTES it gives 1.14 GiB for Llama-3.1-8B with 256 sequences, where
the number of blocks of a vLLM 0.19 on an RTX 4090 leaves 1.15 GiB."""


def bytes_per_block(num_layers: int, num_kv_heads: int, head_dim: int, block_size: int, dtype: KVDtype) -> int:
    """Return the bytes of keys and values of `block_size` tokens in all layers, with any scales, for one accelerator's heads."""
    return num_layers * block_size * num_kv_heads * 2 * dtype.vector_bytes(head_dim)


def available_memory(memory: int, utilization: float, weights: int, *, activations: int = 0, graphs: int = 0) -> int:
    """Return bytes that are left for the KV cache; negative where the rest does not even fit."""
    return ceil(memory * utilization) - weights - activations - graphs


@dataclass(frozen=True, slots=True)
class Pool:
    """The blocks that fit into a number of bytes. `num_blocks` counts the null block, as vLLM does."""

    bytes_per_block: int
    block_size: int
    num_blocks: int

    @classmethod
    def of(cls, available: int, bytes_per_block: int, block_size: int) -> Pool:
        return cls(bytes_per_block, block_size, max(available, 0) // bytes_per_block)

    @property
    def usable_blocks(self) -> int:
        """Without the null block."""
        return max(self.num_blocks - 1, 0)

    @property
    def tokens(self) -> int:
        """vLLM's "GPU KV cache size", which counts the null block too."""
        return self.num_blocks * self.block_size

    @property
    def longest_request(self) -> int:
        """Tokens of the longest request that fits."""
        return self.usable_blocks * self.block_size

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def max_concurrency(self, max_model_len: int) -> float:
        """Return vLLM's "maximum concurrency" of requests of `max_model_len` tokens that share nothing."""
        return self.num_blocks / self.blocks_for(max_model_len)

    def holds(self, max_model_len: int) -> bool:
        """Return whether one request of that length fits; vLLM does not start if none does."""
        return self.blocks_for(max_model_len) <= self.usable_blocks


@dataclass(frozen=True, slots=True)
class Sizing:
    """The use of one accelerator's memory, in bytes."""

    model: str
    memory: int
    usable: int
    weights: int
    activations: int
    graphs: int
    available: int
    pool: Pool

    @property
    def fits(self) -> bool:
        """Return whether there is a KV cache at all."""
        return self.pool.usable_blocks > 0

    @property
    def lacking(self) -> int:
        """Bytes of usable memory that are missing for a KV cache of one block beside the null block; 0 where there is one."""
        return 0 if self.fits else 2 * self.pool.bytes_per_block - self.available

    def check(self, max_model_len: int | None = None) -> None:
        """Raise EngineError if there is no KV cache, or if one request of that length does not fit."""
        if not self.fits:
            taken = f"{_gib(self.weights)} of {self.model}'s weights and the {_gib(self.activations + self.graphs)}"
            raise EngineError(
                f"no KV cache fits: {taken} estimated for activations and graphs leave too little of {_gib(self.memory)} "
                f"({_gib(self.usable)} usable); it needs {_gib(self.lacking)} more",
                hint="raise --gpu-memory or --tensor-parallel, or choose a smaller --model",
            )
        if max_model_len is not None and not self.pool.holds(max_model_len):
            raise self._too_long(max_model_len, self.pool.longest_request)

    def check_planned(self, plan: CachePlan, max_model_len: int) -> None:
        """Raise EngineError if one request of that length, with a plan's groups, does not fit."""
        pool = PlannedPool(plan, self.pool.num_blocks)
        if not pool.holds(max_model_len):
            raise self._too_long(max_model_len, pool.longest_request(max_model_len))

    def _too_long(self, asked: int, longest: int) -> EngineError:
        return EngineError(
            f"a KV cache of {_gib(self.available)} holds no request of {asked:,} tokens",
            hint=f"at most {longest:,} tokens fit: lower --max-model-len, "
            "raise --gpu-memory or choose a smaller --kv-cache-dtype",
        )


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f} GiB"


def kv_heads_per_rank(geometry: Geometry, tensor_parallel: int) -> int:
    """Return the K/V heads on each of `tensor_parallel` accelerators: an even part, or a copy of one if there are too few."""
    if tensor_parallel < 1:
        raise EngineError(f"tensor parallelism must be at least 1, not {tensor_parallel}")
    heads, kv_heads = geometry.num_heads, geometry.num_kv_heads
    if heads % tensor_parallel or (kv_heads % tensor_parallel and tensor_parallel % kv_heads):
        raise EngineError(
            f"{geometry.name} cannot be split over {tensor_parallel} accelerators: it has {heads} attention heads and "
            f"{kv_heads} K/V heads"
        )
    return max(kv_heads // tensor_parallel, 1)


def block_bytes(geometry: Geometry, block_size: int, kv_cache_dtype: str = AUTO, tensor_parallel: int = 1) -> int:
    """Return `bytes_per_block` of a model served in bf16 or fp16, on each accelerator."""
    heads = kv_heads_per_rank(geometry, tensor_parallel)
    return bytes_per_block(geometry.num_layers, heads, geometry.head_dim, block_size, find_kv_dtype(kv_cache_dtype))


def weight_bytes(geometry: Geometry, tensor_parallel: int = 1) -> int:
    """Return the bytes of weights on each accelerator: its part of the matrices, with copied K/V projections, and all norms and
    biases."""
    if geometry.counted is not None:
        kv_heads_per_rank(geometry, tensor_parallel)
        return geometry.counted.stored_bytes(tensor_parallel)
    copied = kv_heads_per_rank(geometry, tensor_parallel) * tensor_parallel - geometry.num_kv_heads
    projections = 2 * geometry.num_layers * geometry.hidden_size * geometry.head_dim * copied
    matrices = geometry.parameters - geometry.vector_parameters + projections
    return (-(-matrices // tensor_parallel) + geometry.vector_parameters) * _WEIGHT_BYTES


def estimated_activations(
    geometry: Geometry,
    tensor_parallel: int = 1,
    *,
    max_num_batched_tokens: int = EngineConfig.max_num_batched_tokens,
    max_num_seqs: int = EngineConfig.max_num_seqs,
) -> int:
    """Return the peak of a full step's forward pass, or of sampling for all its requests, whichever is larger, plus memory outside
    torch.

    In the pass, a layer's MLP takes most: its input, its residual, both halves of its gate and their product.
    """
    inner = -(-geometry.intermediate_size // tensor_parallel)
    layer = max_num_batched_tokens * (2 * geometry.hidden_size + 3 * inner) * _WEIGHT_BYTES
    sampling = min(max_num_seqs, max_num_batched_tokens) * geometry.vocab_size * LOGIT_BYTES
    return max(layer, sampling) + DEVICE_BYTES


def size_cache(
    geometry: Geometry,
    memory: int,
    *,
    utilization: float = DEFAULT_UTILIZATION,
    block_size: int = EngineConfig.block_size,
    kv_cache_dtype: str = AUTO,
    tensor_parallel: int = 1,
    max_num_batched_tokens: int = EngineConfig.max_num_batched_tokens,
    max_num_seqs: int = EngineConfig.max_num_seqs,
    activations: int | None = None,
    graphs: int = GRAPH_BYTES,
    plan: CachePlan | None = None,
) -> Sizing:
    """Return the KV cache of a model, served in bf16 or fp16, on an accelerator of `memory` bytes.

    `activations` and `graphs` are estimates unless given. `plan` gives the size of a block; without one, all layers are plain.
    """
    if not 0.0 < utilization <= 1.0:
        raise EngineError(f"memory utilization must be in (0, 1], not {utilization}")
    if block_size < 1:
        raise EngineError(f"block size must be at least 1, not {block_size}")
    if plan is None or not plan.groups:
        per_block = block_bytes(geometry, block_size, kv_cache_dtype, tensor_parallel)
    else:
        per_block = plan.bytes_per_block
    weights = weight_bytes(geometry, tensor_parallel)
    if activations is None:
        activations = estimated_activations(
            geometry, tensor_parallel, max_num_batched_tokens=max_num_batched_tokens, max_num_seqs=max_num_seqs
        )
    available = available_memory(memory, utilization, weights, activations=activations, graphs=graphs)
    return Sizing(
        model=geometry.name,
        memory=memory,
        usable=ceil(memory * utilization),
        weights=weights,
        activations=activations,
        graphs=graphs,
        available=available,
        pool=Pool.of(available, per_block, block_size),
    )


def blocks_that_fit(
    geometry: Geometry,
    memory: int,
    block_size: int,
    *,
    utilization: float = DEFAULT_UTILIZATION,
    kv_cache_dtype: str = AUTO,
    tensor_parallel: int = 1,
    max_model_len: int | None = None,
    max_num_batched_tokens: int = EngineConfig.max_num_batched_tokens,
    max_num_seqs: int = EngineConfig.max_num_seqs,
    plan: CachePlan | None = None,
) -> int:
    """Return KV blocks beside a model, the null block included; EngineError where nothing, or not one full-length request, fits."""
    sizing = size_cache(
        geometry,
        memory,
        utilization=utilization,
        block_size=block_size,
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel=tensor_parallel,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        plan=plan,
    )
    if plan is None or max_model_len is None:
        sizing.check(max_model_len)
    else:
        sizing.check()
        sizing.check_planned(plan, max_model_len)
    return sizing.pool.num_blocks
