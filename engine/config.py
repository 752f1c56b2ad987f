"""What an engine is made of; frozen, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from kvtool.engine.engine_error import EngineError

HashAlgorithm = Literal["native", "sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]
"""kvtool's own chain, or one that gives the hashes of a vLLM server with the same `--prefix-caching-hash-algo`."""

DecodeMode = Literal["flat", "prefix-aware", "auto"]
"""How attention in decode reads prefixes that sequences share: for each of them, once, or as a model of their costs says."""
UNLIMITED_LEN = 1 << 31
"""A `max_model_len` that refuses nothing."""
DEFAULT_MODEL = "llama-3.1-8b"
"""Of predictions and sizes, where none is named."""
DEFAULT_ACCELERATOR = "h100"
"""Of predictions, where none is named."""
DEFAULT_UTILIZATION = 0.92
"""vLLM's `gpu_memory_utilization`; 0.90 in versions before it counted the CUDA graphs."""
DEFAULT_DECODE_BATCH = 64
"""Conversations that would decode together, where the run has one request at a time."""


@dataclass(frozen=True)
class EngineConfig:
    """Parameters of the cache and the scheduler, named as in vLLM.

    `num_blocks` counts the null block, as vLLM does, so `num_blocks - 1` are usable; None is a pool that grows and never evicts.
    """

    block_size: int = 16
    num_blocks: int | None = None
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    max_model_len: int = UNLIMITED_LEN
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    policy: Literal["fcfs", "priority"] = "fcfs"
    hash_algo: HashAlgorithm = "native"
    hash_seed: str | None = None
    """The server's PYTHONHASHSEED, from which vLLM derives the parent of first blocks; None: not set. Native hashes ignore it."""
    async_scheduling: bool = False
    """Two batches in flight, as vLLM has it by default: a step is scheduled before the tokens of the one before are known."""

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise EngineError(f"block size must be at least 1, not {self.block_size}")
        if self.num_blocks is not None and self.num_blocks < 2:
            raise EngineError(
                f"the cache needs at least 1 usable block, not {self.num_blocks - 1}", hint="raise --capacity"
            )
        for name in ("max_num_batched_tokens", "max_num_seqs", "max_model_len"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.long_prefill_token_threshold < 0:
            raise EngineError(f"long_prefill_token_threshold must not be negative: {self.long_prefill_token_threshold}")
        if not 0.0 <= self.watermark < 1.0:
            raise EngineError(f"watermark must be in [0, 1), not {self.watermark}")
        if self.policy not in ("fcfs", "priority"):
            raise EngineError(f"unknown policy `{self.policy}`", hint="fcfs or priority")
        if self.hash_algo not in get_args(HashAlgorithm):
            raise EngineError(
                f"unknown hash algorithm `{self.hash_algo}`", hint=f"one of {', '.join(get_args(HashAlgorithm))}"
            )
